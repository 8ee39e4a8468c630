mkdir z
seq 500 > z/f
ln -s f z/l
zip -qry a.zip z
unzip -tq a.zip
unzip -qo a.zip -d out
diff -r z out/z && echo same
echo x > z/g
zip -qr a.zip z
unzip -l a.zip | tail -n 1
zip -qd a.zip z/g
unzip -l a.zip | tail -n 1
rm a.zip
