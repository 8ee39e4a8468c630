cd $M
find . -type d -printf '%P d %m %U %G %T@\n' -o -printf '%P %y %m %n %U %G %s %T@ %l\n' \
    | LC_ALL=C sort
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum
