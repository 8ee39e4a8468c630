du -a --apparent-size include/*.h | sort
du -s --apparent-size -b include/stdio.h doc/*/copyright 2> /dev/null | sort -k 2
