touch f
setfacl -m u:1234:rw,g:99:r f
getfacl -n f
stat -c %a f
chmod 600 f
getfacl -n f
setfacl -b f
getfacl -n f
mkdir d
setfacl -d -m u:1234:rwx,m::rwx d
umask 077
touch d/f
mkdir d/sub
getfacl -n d d/f d/sub
cp -a d e
getfacl -n e/f
mv f moved
setfacl -m u:1:r moved
getfacl -n moved | setfacl --set-file=- f 2> /dev/null || touch f
getfacl -n moved f
