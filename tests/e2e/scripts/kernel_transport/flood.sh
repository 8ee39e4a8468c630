cd @target@ && for i in $(seq 20); do cp fast slow$i; done
for i in $(seq 20); do cat slow$i & done
cat fast
for i in $(seq 20); do @program@ open @target@/slow$i; done | sort | uniq -c
kill $(jobs -p) 2> /dev/null
wait
echo left
if @kept@; then
    server=$(pgrep -nf 'culvert mount.*@target@$')
    for i in $(seq 20); do cat slow$i & done
    cat fast > again
    kill -9 $server
    rm again
    for i in $(seq 20); do @program@ open @target@/slow$i; done | sort | uniq -c
    kill $(jobs -p) 2> /dev/null
    wait
fi
cat fast
cd /
umount @target@ && echo ended
