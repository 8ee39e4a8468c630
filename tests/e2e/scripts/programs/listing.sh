ls -lAR --time-style=full-iso | sed 's/^total .*/total/' | tr -s ' ' \
    | awk '$1 !~ /^d/ { print } $1 ~ /^d/ { print $1, $3, $4, $NF }'
ls -ld include/stdio.h
ls --color=always include | md5sum
ls -1U | sort
