# In the directory of a world's work: layers base.tar.gz and top.tar.zst, and in the directory $1
# what they are together. All is $2's, if that is not empty, and old.
set -e
umask 022
mkdir base top
(
    cd base
    mkdir -p d/e e/h
    echo old > f
    seq 30000 > g
    chmod 600 g
    echo below > d/f
    seq 9000 > d/e/f
    chmod 755 d/e/f
    echo hidden > e/f
    echo gone > p
    ln -s d k
)
(
    cd top
    mkdir -p d e
    echo new > f
    echo above > d/g
    echo shown > e/g
    : > .wh.p
    : > e/.wh..wh..opq
)
cp -a base/. "$1"
rm -r "$1/e/f" "$1/e/h" "$1/p"
cp -a top/. "$1"
rm "$1/.wh.p" "$1/e/.wh..wh..opq"
chmod 755 base top "$1"
[ -z "$2" ] || chown -hR "$2:$2" base top "$1"
find base top "$1" -exec touch -h -d @1000000000 {} +
tar -C base -czf base.tar.gz .
tar -C top -c . | zstd -q > top.tar.zst
rm -r base top
