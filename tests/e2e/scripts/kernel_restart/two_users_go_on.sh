for user in 2 65534; do
    mkdir @target@/$user
    chown $user:$user @target@/$user
    chmod 700 @target@/$user
done
setpriv --reuid=2 --regid=2 --clear-groups -- @program@ @target@/2 10 &
second=$!
@program@ @target@/65534 6 @keeper@
wait $second
echo $?
setpriv --reuid=2 --regid=2 --clear-groups ls @target@/65534 2>&1 | grep -c denied
stat -c %u @target@/2/many/0001
