cd $M
find . -mindepth 1 -type d -printf '%P d %m %T@\n' -o -printf '%P %y %m %s %T@ %l\n' | LC_ALL=C sort
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum
