cp /bin/cat $W/p
settle
start() { run sh -c "$W/p $* $W/b/f; :"; }
start; start; start
printf '#!/bin/sh\necho a script\ncat "$1"\n' > $W/p
start
cp /usr/bin/head $W/n
mv $W/n $W/p
start -n 1
settle
start -n 1; start -n 1
chmod 0 $W/p
run sh -c "$W/p; echo \$?" 2> /dev/null
rm $W/p
run sh -c "$W/p; echo \$?" 2> /dev/null
