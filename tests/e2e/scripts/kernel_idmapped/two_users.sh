as() { setpriv --reuid=$1 --regid=$1 --clear-groups -- bash -c "umask 022; $2" 2>&1 \
    | sed "s/^bash: line [0-9]*: //"; }
owners() { (
    cd $1
    stat -c "%n %u %g %a" *
); }
chmod 777 .
as 1000 "echo mine > f; mkdir d; ln -s f l; mkfifo p; ln f h; echo x > gone; rm gone; mv h h2; owners() { stat -c \"%u %g %a %s\" \"\$@\"; }; owners f d l p h2"
as 1000 "chmod 640 f; cat f; echo more >> f; truncate -s 3 f; touch -d @7 f; stat -c \"%Y %s\" f; echo again > f; mv f d/f; cat d/f; echo y > d/y; ls d"
as 3 "cat d/f; echo x > d/f; rm -f d/y; mv d e; chmod 777 d; echo x > new; mkdir new; ls; id -u"
as 0 "cat d/f; echo root > r; chown 1000:1000 r; stat -c \"%u %g\" r; chown 3 r; chmod 600 r; stat -c \"%u %g %a\" r"
as 1000 "cat r; chmod 400 r; echo no > r; chmod 644 r; chmod u+s r; stat -c %a r"
cp /bin/true s
chown 0:0 s
for how in "echo >> s" "truncate -s 9 s" ": > s"; do
    chmod 6777 s
    as 1000 "$how"
    stat -c %a s
done
setfacl -m u:1000:r r
getfacl -cn r
setfacl -d -m u:1000:rwx d
as 1000 "touch d/acl; getfacl -cn d/acl; setfattr -n user.a -v b d/acl; getfattr --only-values -n user.a d/acl"
echo
chmod 2777 d
as 1000 "mkdir d/sub; touch d/file; stat -c \"%u %g %a\" d/sub d/file"
echo "here:"
owners .
owners d
echo "there:"
owners $THERE
owners $THERE/d
