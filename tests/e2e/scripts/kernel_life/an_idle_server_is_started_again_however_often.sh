cd @target@
echo x > f
exec 5< f
for kill in $(seq 12); do
    until server=$(cat /proc/@keeper@/task/@keeper@/children) && [ -n "$server" ]; do :; done
    kill -9 $server
    tail --pid=$server -f /dev/null
done
cat <&5
echo y > g
cat g
