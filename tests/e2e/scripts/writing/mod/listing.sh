find . -type d -printf '%P %y %m %U %G\n' -o -type l -printf '%P %y %U %G %l\n' -o -printf '%P %y %m %U %G %n %s\n' \
    | sort
find . -type f -print0 | sort -z | xargs -0r md5sum
