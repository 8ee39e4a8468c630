//! coreutils, findutils, tar, rsync.

use super::{good, same};
use culvert_e2e::{Driver, installed, on_each_driver};

on_each_driver! {
    copies |case| good(&case,
        "seq 1000 > a; chmod 640 a; touch -d '2011-12-13 14:15:16.123456789' a; cp a b; cp -p a c; stat -c '%n %a %s' a b; stat -c '%n %a %y' a c; mkdir d; cp a c d; cp -a d e; cp -r d/. f; cp -l a hard; cp -s $M/a soft; stat -c '%h %n' a hard; readlink soft; cat soft | md5sum
         ln hard hard2; ln -s d/a link; ln -sf d/c link; ln -s nowhere dangling; ln -sfn d dir; cp -a link dangling dir hard2 d; ls d; cp --parents d/a e; cp -u a b; cp --backup=numbered a b; ls b*; cp --attributes-only --preserve=all a blank; stat -c '%a %y' blank; cp -n a b; cp -f a readonly; chmod 444 readonly; cp --remove-destination b readonly
         cp --sparse=always a sparse; cmp a sparse; cp --reflink=auto a ref; cmp a ref; cp /dev/null null; install -m 751 -D a i/j/k; install -d -m 700 i/l; stat -c '%a %n' i/j/k i/l; if cp a missing/x 2>err; then echo COPIED; fi; cat err; if cp -a d d/inside 2>err; then echo COPIED; fi; cat err; rm -rf d/inside");

    moves |case| good(&case,
        "mkdir a b; seq 10 > a/f; mv a/f a/g; mv a/g b; ls a b; mv b/g b/h; mv b c; cat c/h | wc -l; mv -n c/h a; touch x y; echo x > x; echo y > y; mv x y; cat y; mv -b y a; mkdir -p deep/er; mv deep a; ls a; mv a/deep/er .; mv -T er a/deep/er; if mv a a/deep 2>err; then echo MOVED; fi; cat err
         touch full; mkdir full.d; touch full.d/f; if mv -T full full.d 2>err; then echo MOVED; fi; cat err; if mv -T full.d a 2>err; then echo MOVED; fi; cat err; echo out > $W/outside; mv $W/outside in; cat in; mv in $W/outside; cat $W/outside; mkdir -p $W/tree/sub; echo t > $W/tree/sub/t; ln -s t $W/tree/sub/l; mv $W/tree .; find tree | sort; mv tree $W/back; find $W/back -printf '%P %y\\n' | sort
         ln full hard; if mv hard full 2>err; then ls full hard; fi; mv full 'a name with spaces'; ls; rm -f hard");

    links_and_removal |case| good(&case,
        "touch f; for i in 1 2 3 4 5; do ln f l$i; done; stat -c %h f; rm l1 l2; stat -c %h f; exec 3< f; rm f l3 l4; stat -c %h l5; ln -s l5 s; ln -P s s2; readlink s2; ln -L s hard; stat -c '%h %F' hard; rm s; readlink -f s2; realpath s2 --relative-to=$M; mkdir -p a/b/c/d; touch a/b/x; if rmdir a 2>err; then echo GONE; fi; cat err; rmdir -p a/b/c/d 2>/dev/null || ls a; rm -r a; ls -d a 2>/dev/null || echo gone
         mkdir m; touch m/{1..200}; ls m | wc -l; rm m/1*; ls m | wc -l; rm -rf m; unlink s2; link l5 l6; ls; mkdir ro; touch ro/f; chmod 555 ro; rm -f ro/f 2>/dev/null || echo refused; chmod 755 ro; rm -rf ro; shred -n 1 -u l6; ls; mktemp -p . -u XXXX >/dev/null; t=$(mktemp -p .); stat -c '%a %s' $t; rm $t; t=$(mktemp -d -p .); stat -c %a $t; rmdir $t");

    pieces |case| good(&case,
        "seq 100000 > s; split -n 7 s part.; cat part.* | cmp - s; split -l 9999 -d s line.; ls line.*; cat line.* | cmp - s; rm line.* part.*; csplit -s s 500 '{3}'; wc -l xx*; rm xx*; sort -R s | sort -n -T $M -S 100k --parallel=2 | cmp - s; sort -r -S 50k -T . s -o s2; head -n 2 s2; sort -n -o s2 s2; cmp s s2; tac s2 | head -n 2; shuf -n 10 s | wc -l; uniq -c s | tail -n 1; tee t1 t2 < s | md5sum; echo more | tee -a t1 | cat; tail -n 2 t1; tail -c 5 t2; head -c -588890 s
         dd if=s of=d bs=1000 count=10 status=none; echo HELLO | dd of=d bs=1 seek=5000 conv=notrunc status=none; stat -c %s d; md5sum d; dd if=/dev/zero of=d bs=1 seek=20000 count=0 status=none; stat -c %s d; dd if=s bs=4k skip=3 count=2 oflag=append conv=notrunc of=d status=none; stat -c %s d; md5sum d; dd if=s of=direct bs=64k conv=fsync,sparse status=none; cmp s direct
         truncate -s 1M t; truncate -s -5 t; truncate -s +1 t; truncate -s '<100' t; truncate -s %64 t; truncate -r s t; stat -c %s t; truncate -s 0 t; printf abc > t; truncate -s 2 t; cat t; echo; rm -f s2 t2; sed -i 's/1/one/g' s; md5sum s; sed -i.bak 5q s; cat s; wc -l s.bak; perl -pi -e 's/o/0/' s; cat s; awk '{ print > (\"w\" NR) }' s; ls w*; paste w1 w2; od -c s | tail -n 1; comm <(sort s) <(sort s); join <(sort w1) <(sort w1); fold -w 3 s | head -n 3; base64 s > b; base64 -d b | cmp - s; cksum s; sum s; gzip -k s; zcat s.gz | cmp - s; rm s.gz; bzip2 -k s; bzcat s.bz2 | cmp - s; xz -k s; xzcat s.xz | cmp - s; rm s.*");

    attributes |case| good(&case,
        "touch f; mkdir d; for m in 000 400 644 755 1777 2755 4755 7777; do chmod $m f d; stat -c '%a %A %n' f d; done; chmod 644 f; chmod a+X,g-w,o= f; stat -c %a f; chmod u+s f; echo x >> f; stat -c %a f; chmod 2755 d; mkdir d/sub; stat -c %a d/sub; chmod 755 d d/sub; touch -m -d @1000000000.5 f; touch -a -d @1.25 f; stat -c '%.9X %.9Y' f; touch -r f g; stat -c %y g; ln -s f l; touch -h -d @5 l; stat -c %Y l f; touch -c missing; ls missing 2>/dev/null || echo not made; chown $(id -u):$(id -g) f; chgrp $(id -g) f; chown -h $(id -u) l; stat -c '%F %h %s %u %g' f; stat -f -c '%l' . ; df . > /dev/null; du -b --apparent-size f; sync f .; getfattr -d f 2>/dev/null; test -r f -a -w f; test -x d; ls -l f | cut -c 1-10");

    extended_attributes |case| if installed("setfattr") && installed("setfacl") { good(&case,
        "touch f; setfattr -n user.one -v 1 f; setfattr -n user.two -v '\"with \\0 byte\"' f; getfattr -d f | sort; setfattr -x user.one f; getfattr -d f | sort; if setfattr -x user.none f 2>err; then echo REMOVED; fi; cat err; mkdir d; setfattr -n user.dir -v yes d; getfattr --only-values -n user.dir d; cp -a f copy; getfattr -d copy; mv copy moved; getfattr -d moved; ln -s f l; getfattr -d l; if getfattr -h -n user.two l 2>err; then echo READ; fi
         printf %01000d 0 > big; setfattr -n user.big -v \"$(cat big)\" f; getfattr --only-values -n user.big f | wc -c; tar --xattrs -cf t.tar f d; mkdir x; tar --xattrs -xf t.tar -C x; getfattr -d x/f | md5sum; rm t.tar") };

    access_lists |case| if installed("setfacl") && case.driver() != Some(Driver::Memory) { good(&case,
        "touch f; setfacl -m u:1234:rw,g:99:r f; getfacl -n f; stat -c %a f; chmod 600 f; getfacl -n f; setfacl -b f; getfacl -n f; mkdir d; setfacl -d -m u:1234:rwx,m::rwx d; umask 077; touch d/f; mkdir d/sub; getfacl -n d d/f d/sub; cp -a d e; getfacl -n e/f; mv f moved; setfacl -m u:1:r moved; getfacl -n moved | setfacl --set-file=- f 2>/dev/null || touch f; getfacl -n moved f") };

    holes |case| good(&case,
        "truncate -s 1M s; printf x | dd of=s bs=1 seek=500000 conv=notrunc status=none; cp --sparse=auto s t; cmp s t; fallocate -l 100000 f; stat -c %s f; fallocate -n -l 300000 f; stat -c %s f; seq 20000 > f; fallocate -p -o 8192 -l 8192 f; md5sum f; fallocate -z -o 100 -l 5000 f; md5sum f; stat -c %s f; tar -S -cf s.tar s; mkdir x; tar -S -xf s.tar -C x; cmp s x/s; rm s.tar; python3 -c '
import os
f = os.open(\"h\", os.O_RDWR | os.O_CREAT); os.pwrite(f, b\"data\", 0); os.pwrite(f, b\"more\", 1 << 20); os.ftruncate(f, 2 << 20)
print(os.lseek(f, 0, os.SEEK_DATA), os.lseek(f, 1 << 20, os.SEEK_DATA), os.lseek(f, 0, os.SEEK_HOLE) <= 65536, os.lseek(f, 65536, os.SEEK_DATA) == 1 << 20, os.lseek(f, 2 << 20, os.SEEK_END))
try: os.lseek(f, 2 << 20, os.SEEK_DATA)
except OSError as e: print(e.errno)'");

    find_and_change |case| good(&case,
        "mkdir -p a/b/c d/e; touch a/1.txt a/b/2.txt a/b/c/3.log d/e/4.txt; chmod 600 a/1.txt; find . -name '*.txt' | sort; find . -name '*.log' -delete; find . -type f | sort; find . -empty | sort; find . -perm 600; find a -type f -exec chmod 640 {} +; find . -perm 640 | sort; touch -d @5 a/1.txt d; touch -d @9 d/e/4.txt; touch -d @3 a/b/2.txt; find . -newer a/1.txt -type f | sort; find a -depth -type d | wc -l; find . -name '*.txt' -print0 | sort -z | xargs -0 -n 1 basename; find . -name 4.txt -exec mv {} {}.moved ';'; find d; find . -type f -exec sh -c 'echo $1 > $1' sh {} ';'; cat a/1.txt; find d -delete; ls; find . -links 1 -size -2 -type f | sort; mkdir many; (cd many; seq 3000 | xargs touch); find many -type f | wc -l; find many -name '*7' -delete; ls many | wc -l; ls -U many | sort -n | tail -n 1; rm -r many");

    tar |case| good(&case,
        "mkdir -p t/d/e; seq 1000 > t/f; ln t/f t/hard; ln -s f t/soft; ln -s /absolute t/abs; truncate -s 100k t/sparse; mkfifo t/fifo; printf %0120d 0 | xargs -I N touch t/N; chmod 4755 t/d/e; touch -d @1234567890 t/f t/d t/soft -h; tar -cf a.tar t; tar -tvf a.tar --full-time --numeric-owner | grep -v ' t/$' | awk '$1 ~ /^d/ { print $1, $2, $6; next } { print $1, $2, $3, $6, $7, $8 }' | sort; mkdir x; tar -xpf a.tar -C x; stat -c '%n %h %a %Y' x/t/f x/t/hard; readlink x/t/soft x/t/abs; stat -c %F x/t/fifo; diff -r --no-dereference t/d x/t/d; tar -df a.tar && echo no difference
         tar -czf a.tgz -C t . ; mkdir y; tar -xzf a.tgz -C y --no-same-permissions; ls y | wc -l; tar -rf a.tar a.tgz; tar --delete -f a.tar t/f; tar -tf a.tar | sort | tail -n 3; tar -uf a.tar t/soft; echo new > t/f; tar -x --overwrite -f a.tar t/hard 2>/dev/null || echo no link; tar -cf - t | tar -xf - -C y; tar --keep-old-files -xf a.tar -C x 2>/dev/null || echo kept; tar -cf i.tar -g snapshot t; echo more > t/more; tar -cf j.tar -g snapshot t; tar -tf j.tar | grep more; rm -f *.tar a.tgz x/a.tgz snapshot");

    cpio_and_zip |case| if installed("zip") && installed("unzip") { same(&case,
        "mkdir z; seq 500 > z/f; ln -s f z/l; zip -qry a.zip z; unzip -tq a.zip; unzip -qo a.zip -d out; diff -r z out/z && echo same; echo x > z/g; zip -qr a.zip z; unzip -l a.zip | tail -n 1; zip -qd a.zip z/g; unzip -l a.zip | tail -n 1; rm a.zip") };

    rsync |case| if installed("rsync") { good(&case,
        "mkdir -p s/d/e; seq 3000 > s/f; seq 10 > s/d/g; ln s/f s/d/hard; ln -s ../f s/d/soft; truncate -s 300k s/sparse; mkfifo s/fifo; chmod 2750 s/d; touch -d @1111111111.25 s/f s/d/g; A=; if setfattr -n user.x -v 1 s/f 2>/dev/null; then A=A; fi
         rsync -aOHX$A s/ t; diff -r --no-dereference s/d t/d; stat -c '%n %a %h %.9Y' t/f t/d/hard t/d/g; rsync -aOHX$A -i s/ t; echo change >> s/f; touch -d @1 s/f; rm s/d/g; rsync -aOHX -i --delete s/ t; cmp s/f t/f; rsync -aOS --inplace -i s/sparse t/; echo tail >> s/f; rsync -a --append-verify s/f t/f; cmp s/f t/f; rsync -a --link-dest=$M/t s/ u; stat -c %h u/d/soft; stat -c %h u/sparse; rsync -a --backup --suffix=.old --ignore-times s/f t/; ls t; rsync -rc --remove-source-files s/d/ moved; ls s/d moved; rsync -a --temp-dir=$M/d2 s/f t/ 2>/dev/null || echo no directory; rsync -a --partial --bwlimit=0 -W s/ v; diff -r s/f v/f") };

    tail_follows |case| same(&case,
        "echo 1 > log; : > seen; timeout 55 tail -n +1 -F log > seen 2>/dev/null & t=$!; w() { until grep -q \"$1\" seen; do sleep 0.02; done; }; w 1; echo 2 >> log; w 2; mv log log.1; echo 3 > log; w 3; echo four >> log; w four; kill $t; wait $t 2>/dev/null; cat seen; rm seen; ls");
}
