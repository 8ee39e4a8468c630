v=$(gcc -dumpversion)
for p in gcc-$v gcc-$v-x86-64-linux-gnu cpp-$v cpp-$v-x86-64-linux-gnu libgcc-$v-dev libgcc-s1 libc6 libc6-dev linux-libc-dev binutils-x86-64-linux-gnu libbinutils libctf0 libctf-nobfd0 libgprofng0 libsframe1 libmpc3 libmpfr6 libgmp10 libisl23 libjansson4 libzstd1 zlib1g; do dpkg -L $p 2> /dev/null \
    || :; done | grep -Ev '^/(usr/share|etc)|lto-dump|gcov|gold|gprof|gconv|/lib(a|t|l|ub|hwa)san|/plugin/|x86_64-linux-gnu-dwp' | sort -u > ../list
mkdir -p usr/lib usr/lib64 && ln -s usr/lib usr/lib64 . \
    && sed -E 's,^/lib(64)?/,/usr&,' ../list | while read -r f; do if test -f $f; then echo $f; fi; done | sort -u | tar -cf - -T - 2> /dev/null | tar -xf -
cd usr/bin \
    && for t in as ld ar ranlib nm objdump strip gcc-$v; do ln -sf x86_64-linux-gnu-$t $t; done
