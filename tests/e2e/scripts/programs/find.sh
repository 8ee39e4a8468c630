find . -type d -printf '%P %m %U %G\n' -o -printf '%P %y %m %U %G %s %T@ %l\n' | sort
find . -name '*.h' -newermt 2019-01-01 -size +10k | sort
find -L . -maxdepth 3 -type f | sort | md5sum
find . -empty | sort
