cd $M && mkdir -p d/sub other && echo text > d/old && mkfifo $W/events
inotifywait -m -r -e create,delete,modify,attrib,move,close_write --format '%w %e %f' d > $W/events 2>&1 &
while read -r line; do
    echo "$line"
    case $line in
        'Watches established.')
            echo text > d/new
            echo more >> d/old
            chmod 600 d/new
            mv d/new d/sub/
            mv d/sub/new other/
            cp other/new d/copy
            ln d/copy d/hard
            rm d/hard d/copy
            touch d/end
            ;;
        *' CREATE end') break ;;
    esac
done < $W/events
kill $!
wait $! 2> /dev/null
rm $W/events
