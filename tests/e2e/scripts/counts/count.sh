# Each open descriptor costs calls in each program: only the first three are.
for number in /proc/self/fd/*; do
    number=${number##*/}
    [ $number -le 2 ] || eval "exec $number>&-"
done
cd $M
mkdir dir
seq 300 | sed 's/^/line /' > text
cp text dir/a.txt
: > dir/b.txt
ln -s a.txt dir/link
cp -a dir copied
cp -a dir moved
cp text all.tar
echo 'all: ; @echo made' > Makefile
# What is met for the first time costs more, and writes tables.
(@command@) > /dev/null 2>&1
rm -rf t.db repository moved copied
cp -a dir copied
cp -a dir moved
# A signal that is ignored (nohup) spares programs a call.
env --default-signal strace -f -qq -c -U name,calls -S name -o $W/counts bash -c "$(
    cat << 'END'
exec @command@
END
)" > /dev/null
echo == counted
awk 'NR > 2 && $1 != "total" && NF == 2 { print $1, $2 }' $W/counts | sort
