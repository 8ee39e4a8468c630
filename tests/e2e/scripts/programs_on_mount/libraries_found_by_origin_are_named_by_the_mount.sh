echo 'int one(void) { return 41; }' | cc -shared -fPIC -o lib/libone.so -xc -
printf 'int one(void); int answer(void) { return one() + 1; }' \
    | cc -shared -fPIC -o lib/libanswer.so -xc - -Llib -lone -Wl,-rpath,'$ORIGIN/../lib'
printf '#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
int answer(void); static int show(struct dl_phdr_info *i, size_t n, void *x) { if (strstr(i->dlpi_name, "/lib/lib") && !strstr(i->dlpi_name, "linux-gnu") && !strstr(i->dlpi_name, "libculvert")) puts(i->dlpi_name); return 0; }
             int main(void) { Dl_info d; dladdr(answer, &d); printf("%%d ", answer()); puts(d.dli_fname); return dl_iterate_phdr(show, 0); }' > use.c
cc -o bin/use use.c -Llib -lanswer -Wl,-rpath,'$ORIGIN/../lib',-rpath-link,lib
bin/use
(
    cd bin
    ./use
)
$M/bin/use
ln -s bin/use u
./u
ldd bin/use | grep -o '/.*/lib/lib[oa].*so'
/lib64/ld-linux-x86-64.so.2 $M/bin/use
