mkdir -p t/d/e
seq 1000 > t/f
ln t/f t/hard
ln -s f t/soft
ln -s /absolute t/abs
truncate -s 100k t/sparse
mkfifo t/fifo
printf %0120d 0 | xargs -I N touch t/N
chmod 4755 t/d/e
touch -d @1234567890 t/f t/d t/soft -h
tar -cf a.tar t
tar -tvf a.tar --full-time --numeric-owner | grep -v ' t/$' \
    | awk '$1 ~ /^d/ { print $1, $2, $6; next } { print $1, $2, $3, $6, $7, $8 }' | sort
mkdir x
tar -xpf a.tar -C x
stat -c '%n %h %a %Y' x/t/f x/t/hard
readlink x/t/soft x/t/abs
stat -c %F x/t/fifo
diff -r --no-dereference t/d x/t/d
tar -df a.tar && echo no difference
tar -czf a.tgz -C t .
mkdir y
tar -xzf a.tgz -C y --no-same-permissions
ls y | wc -l
tar -rf a.tar a.tgz
tar --delete -f a.tar t/f
tar -tf a.tar | sort | tail -n 3
tar -uf a.tar t/soft
echo new > t/f
tar -x --overwrite -f a.tar t/hard 2> /dev/null || echo no link
tar -cf - t | tar -xf - -C y
tar --keep-old-files -xf a.tar -C x 2> /dev/null || echo kept
tar -cf i.tar -g snapshot t
echo more > t/more
tar -cf j.tar -g snapshot t
tar -tf j.tar | grep more
rm -f *.tar a.tgz x/a.tgz snapshot
