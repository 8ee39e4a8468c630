for i in $(seq 300); do
    now=$(awk '/RssAnon/ { print $2 }' /proc/@server@/status)
    [ $now -gt @most@ ] || break
    sleep 0.1
done
echo $now
