@seen@ cd @target@
mkdir d
cd d
for i in $(seq 50); do
    exec 3> f$i
    echo x >&3
    ln f$i g$i
    mv f$i h$i
    readlink /proc/self/fd/3
    rm g$i
done | grep deleted
pwd -P
echo x > @source@/d/others
seen x cat others
ls | wc -l
readlink /proc/self/fd/3
rm -f @source@/d/h1
seen 50 sh -c 'ls | wc -l'
