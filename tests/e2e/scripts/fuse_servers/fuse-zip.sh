(cd tree && zip -qr ../image.zip .)
run type=fuse.fuse-zip,source=image.zip 'diff -r tree $M; echo new > $M/new; rm $M/d/f1; mv $M/file $M/d/'
ended
test "$(unzip -p image.zip new) $(unzip -p image.zip d/file)" = 'new hello'
unzip -l image.zip | grep -q 'd/f1$' && exit 1
unzip -p image.zip big | cmp - tree/big
