cd @target@ && mkdir -p a/b/c && for i in $(seq 500); do
    echo $i > a/b/c/$i
    ln -s x a/$i
done
find . -type f -exec cat {} + | wc -l
rm -r a
cd tree && stat -c %s * | sort | uniq -c | tr -s ' '
