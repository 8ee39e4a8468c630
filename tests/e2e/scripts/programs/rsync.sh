rsync -a --stats $M/ $W/copy | grep -E '^(Number of (files|regular)|Total file size)' \
    | sed 's/(.*//'
diff -r --no-dereference $M $W/copy && echo equal
rsync -a -i --size-only $M/ $W/copy
rsync -ac --dry-run -i $M/ $W/copy
rsync -a --list-only $M/include/linux/fs.h
