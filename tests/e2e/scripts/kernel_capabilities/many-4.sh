setpriv --reuid=2 --regid=2 --clear-groups bash -c 'echo >> f; truncate -s 9 g'
stat -c %a f g
