diff -r $M $M && echo same
diff -rq include/linux $M/include/linux && echo same
cp -r include/linux $W/l
echo x >> $W/l/fs.h
diff -r include/linux $W/l
cmp include/stdio.h include/errno.h
true
