set -e
cd @place@
culvert=@culvert@
mkdir -p base/etc base/lib base/many app/etc app/lib root
for number in $(seq 200); do echo "base $number" > base/many/$number; done
echo base > base/etc/name; echo base > base/etc/gone; echo old > base/lib/old
ln -s etc/name base/link; mkdir app/many
echo app > app/etc/name; : > app/etc/.wh.gone; : > app/lib/.wh..wh..opq; echo new > app/lib/new
for number in 1 2 3; do echo "app $number" > app/many/$number; done
own="--owner=65534 --group=65534"
tar czf base.tar.gz $own -C base .
tar cf app.tar $own -C app .
chmod -R a+rX .
cat > inside.sh <<'END'
set -e
cd "$1"
cat etc/name link; ls etc lib
cat many/* | sort | uniq | wc -l
echo changed >> etc/name; cat link
mkdir -p var/log; mv many/7 var/log/seven; rm many/8 -r lib
ls many | wc -l; cat var/log/seven
(exec 3< many/9; echo more >> many/9; cat <&3)
(exec 3<> many/10; exec bash -c 'rm many/10; yes filler | head -c 2000000 > fill; rm fill; cat <&3')
mv var/log var/moved; ls var/moved
rm -r many; ! ls many 2> /dev/null; mkdir many; ls -A many | wc -l
mv etc other
cat other/name
END
chmod a+rx . root
@who@ $culvert run --no-private --mount type=overlay,lowerdir=$PWD/app.tar:$PWD/base.tar.gz,upperdir=memory:,target=$PWD/root@options@ -- bash $PWD/inside.sh $PWD/root
