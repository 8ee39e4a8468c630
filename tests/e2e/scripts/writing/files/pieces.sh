seq 100000 > s
split -n 7 s part.
cat part.* | cmp - s
split -l 9999 -d s line.
ls line.*
cat line.* | cmp - s
rm line.* part.*
csplit -s s 500 '{3}'
wc -l xx*
rm xx*
sort -R s | sort -n -T $M -S 100k --parallel=2 | cmp - s
sort -r -S 50k -T . s -o s2
head -n 2 s2
sort -n -o s2 s2
cmp s s2
tac s2 | head -n 2
shuf -n 10 s | wc -l
uniq -c s | tail -n 1
tee t1 t2 < s | md5sum
echo more | tee -a t1 | cat
tail -n 2 t1
tail -c 5 t2
head -c -588890 s
dd if=s of=d bs=1000 count=10 status=none
echo HELLO | dd of=d bs=1 seek=5000 conv=notrunc status=none
stat -c %s d
md5sum d
dd if=/dev/zero of=d bs=1 seek=20000 count=0 status=none
stat -c %s d
dd if=s bs=4k skip=3 count=2 oflag=append conv=notrunc of=d status=none
stat -c %s d
md5sum d
dd if=s of=direct bs=64k conv=fsync,sparse status=none
cmp s direct
truncate -s 1M t
truncate -s -5 t
truncate -s +1 t
truncate -s '<100' t
truncate -s %64 t
truncate -r s t
stat -c %s t
truncate -s 0 t
printf abc > t
truncate -s 2 t
cat t
echo
rm -f s2 t2
sed -i 's/1/one/g' s
md5sum s
sed -i.bak 5q s
cat s
wc -l s.bak
perl -pi -e 's/o/0/' s
cat s
awk '{ print > ("w" NR) }' s
ls w*
paste w1 w2
od -c s | tail -n 1
comm <(sort s) <(sort s)
join <(sort w1) <(sort w1)
fold -w 3 s | head -n 3
base64 s > b
base64 -d b | cmp - s
cksum s
sum s
gzip -k s
zcat s.gz | cmp - s
rm s.gz
bzip2 -k s
bzcat s.bz2 | cmp - s
xz -k s
xzcat s.xz | cmp - s
rm s.*
