cd $M
env -i /bin/cat hello.txt
env -i /bin/sh -c 'cat < hello.txt; exec /usr/bin/env'
exec 3< lines.txt
read -r a <&3
env -i /usr/bin/head -n 1 <&3
env -i bash -c "cd $M/dir; env -i /bin/ls"
