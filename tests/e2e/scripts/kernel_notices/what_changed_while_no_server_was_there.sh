@seen@ cd @target@
mkdir -p @source@/d
echo one > @source@/d/f
seen one cat d/f
exec 3< d/f
stat -c %s d/f d/none 2>&1 | grep -c 4
keeper=$(pgrep -of 'culvert mount.*@target@$')
server=$(pgrep -P $keeper)
kill -STOP $keeper
kill -KILL $server
echo changed > @source@/d/f
chmod 604 @source@/d/f
echo came > @source@/d/none
kill -CONT $keeper
seen changed cat d/f
seen 604 stat -Lc %a /proc/self/fd/3
seen came cat d/none
echo later > @source@/d/none
seen later cat d/none
