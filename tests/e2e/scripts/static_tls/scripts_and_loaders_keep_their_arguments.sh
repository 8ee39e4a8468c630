printf '#!'$W'/large  -x y z\n' > s
printf '#!'$W'/s  over\n' > t
chmod +x s t
cp large first
printf '#!'$W'/first\n' > u
chmod +x u
for again in 1 2; do
    ./s 1 2
    ./t 3
    $W/u ''
    PATH=$W s 4
done
/lib64/ld-linux-x86-64.so.2 --argv0 zero ./large 5
LD_PRELOAD=$W/liblarge.so ./load 2>&1
# Not the machine's own: what it once needed is remembered, and looked for at each start.
cp $(command -v cat) own-cat
LD_PRELOAD=$W/liblarge.so ./own-cat /dev/null
echo $?
