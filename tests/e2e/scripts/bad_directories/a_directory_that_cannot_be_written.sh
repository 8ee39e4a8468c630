cat $T/file
echo x > $T/new
echo x >> $T/file
rm -f $T/file
mkdir $T/d
mv $T/file $T/other
chmod 600 $T/file
ln -s a $T/l
