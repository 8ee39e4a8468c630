# What a program finds that was launched by either stage.
cd $W
mkdir s; echo x > s/f
cat > show << 'SHOW'
#!/bin/bash
env | grep -v '^_=' | sort
umask
ulimit -a
grep -E '^(Sig[BIC]|Shd|Cap|Uid|Gid|Groups|NoNew|Name)' /proc/self/status
ls /proc/self/fd | tr '\n' ' '
tr '\0' '|' < /proc/$$/cmdline
pwd
cat t/f
SHOW
chmod 755 show s; chmod 777 .
for stage in "$culvert" "$culvert-full"; do
    for uid in 0 65533; do
        # The base is there.
        as $uid $culvert run true
        (
            trap '' PIPE USR1
            umask 027
            ulimit -n 300 -f 100
            export A= B=b=c
            exec 7< /dev/null 8> /dev/null 9< $W
            as $uid $stage run --no-private -v s:t ./show one '' 'two  three'
            as $uid $stage run --no-private -v s:t ./show 0<&- 2>&-
            as $uid env -i PATH=/usr/bin:$W C=c $stage run --no-private -v s:t -- show -x
            as $uid setsid -w $stage run --no-private -v s:t perl -e '$SIG{PIPE}="IGNORE"; exec "./show"'
        ) > out.${stage##*/}.$uid 2>&1
    done
done
for uid in 0 65533; do
    [ $(grep -c '^x$' out.culvert.$uid) = 4 ] || cat out.culvert.$uid
    diff out.culvert.$uid out.culvert-full.$uid
done
echo done
