cd @place@
umask 022
as() {
    setpriv --reuid=$1 --regid=$1 --groups=$2 -- bash -c "$3" 2>&1
    echo "= $?"
}
chmod 1777 .
as 65534 65534 'echo mine > a; chmod 640 a; mkdir d; chmod 770 d; chgrp 4 d; ls -ln a'
as 2 2 'cat a; echo x > a; echo x > d/x; rm -f a; mv a b; chmod 777 a; chown 2 a; ls d; touch own; ln -s a l; ls -ln own'
chgrp 4 a
chmod 660 a
chgrp 4 d
as 2 2,4 'cat a; echo more >> a; echo x > d/x; stat -c "%u %g %a" d/x; chmod g-w a; ln a hard; touch -d @0 a; rm -f own'
as 2 2 'echo x > d/y'
echo all > k
chgrp 4 k
chmod 604 k
as 2 2,4 'cat k'
as 2 2 'cat k'
as 65534 65534,4 'cat k'
chmod 2775 d
as 2 2,4 'touch d/new; mkdir d/sub; stat -c "%u %g %a %n" d/new d/sub'
cp /bin/true s
chown 65534:4 s
chmod 6775 s
as 2 2,4 'echo >> s'
stat -c %a s
chmod 6775 s
as 65534 65534,4 'chmod 6755 s'
stat -c %a s
setfacl -m u:2:r a
chmod o= a
setfacl -d -m u:2:rw d 2>&1
as 2 2 'cat a; echo x > a'
as 65534 65534,4 'umask 077; touch d/acl; getfacl -cn d/acl'
mkdir -m 711 p
echo hidden > p/h
as 2 2 'ls p; cat p/h'
chmod 700 p
as 2 2 'cat p/h; cd p'
ls -ln . | cut -d' ' -f1,3,4
