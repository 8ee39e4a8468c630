find . -type f -print0 | sort -z | xargs -0 md5sum
find . -type f -print0 | sort -z | xargs -0 cksum | md5sum
