tar --sort=name -cf - . | tar -tf - | md5sum
tar --sort=name --owner=0 --group=0 -cf - include | md5sum
tar -cf $W/x.tar -C $M doc && tar -xf $W/x.tar -C $W && diff -r --no-dereference $W/doc $M/doc \
    && echo equal
