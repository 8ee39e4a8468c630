# Its own protocol over a pipe: there is no host, and nobody to log in.
printf '#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n' > ssh
chmod 755 ssh
mkdir source
run type=fuse.sshfs,source=host:$PWD/source,ssh_command=$PWD/ssh '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; ls $M/tree/d | wc -l
' > seen
test "$(cat seen) $(cat source/one)" = '59 1'
