server=@server@
for i in $(seq 3000); do
    mount -i -o remount @target@ || exit 77
    now=$(@held@)
    [ $now -gt @most@ ] || break
done
echo $now
