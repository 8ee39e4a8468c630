mkdir -p @source@/d/e
cp /usr/share/common-licenses/GPL-3 @source@/d/file
touch -d @5 @source@/d/file
@seen@ seen 5 stat -c %Y @target@/d/file
@look@
@look@
