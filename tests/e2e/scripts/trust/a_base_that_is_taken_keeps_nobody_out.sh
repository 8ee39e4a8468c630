for uid in 0 65533; do
    for kind in mkdir link file fifo; do
        name=/dev/shm/culvert-$uid
        rm -rf $name $name.*
        case $kind in
            mkdir)
                as 65534 mkdir -m 777 $name
                as 65534 mkdir -m 700 $name.0123456789abcdef
                ;;
            link)
                as 65534 ln -s $evil $name
                as 65534 ln -s /etc $name.0123456789abcdef
                ;;
            file) as 65534 touch $name ;;
            fifo) as 65534 mkfifo -m 666 $name ;;
        esac
        for time in 1 2; do as $uid timeout 20 $culvert run --no-private -v $evil:$real -- $look; done
        found=$(find /dev/shm -maxdepth 1 -name "culvert-$uid.*" -uid $uid -perm 700 | wc -l)
        echo $uid $kind $found $(find $evil $name/ -mindepth 1 ! -name f 2> /dev/null)
    done
done
