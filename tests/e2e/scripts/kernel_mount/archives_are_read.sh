find . -type d -printf '%p %m %n %T@\n' -o -printf '%p %y %m %s %n %l %T@\n' | sort
find . -type f -readable -print0 | sort -z | xargs -0 cksum
ls -a dir
ls many | wc -l
