//! Libraries with much static thread-local storage, which ld.so gives little room under an auditor.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};
use std::path::Path;

/// Compiles the program into `$W`: `large` and `small` need a library of that name, `foreign` uses another's variable itself, `load` opens libraries.
const BUILD: &str = "set -e; cd $W; I=$W/static_tls.c; printf %s \"$SOURCE\" > $I; unset SOURCE
    cc -shared -fPIC -DLIBRARY=24000 -o liblarge.so $I; cc -o large $I -L. -llarge -Wl,-rpath,$W; cc -shared -fPIC -DLIBRARY=1400 -o libsmall.so $I; cc -o small $I -L. -lsmall -Wl,-rpath,$W
    echo '__thread char other[24000];' | cc -shared -fPIC -o libother.so -xc -; printf '#include <stdio.h>\\nextern __thread char other[24000]; int main(void) { other[9] = 7; printf(\"%%d\\\\n\", other[9]); return 0; }' | cc -o foreign -xc - -L. -lother -Wl,-rpath,$W
    printf '#include <dlfcn.h>\\n#include <stdio.h>\\nint main(int n, char **v) { puts(dlopen(v[1], RTLD_NOW) ? \"opened\" : dlerror()); return n - 2; }' | cc -o load -xc - ; set +e\n";

fn same(case: Case, script: &str) {
    let source = include_str!("../../programs/static_tls.c");
    case.variable("SOURCE", source)
        .good(&format!("{BUILD}{script}"));
}

as_each_user! {
    programs_get_the_room_that_they_have_natively |case| same(case.odd(),
        "for again in 1 2; do for p in ./large ./small ./foreign $W/large; do $p a '' b; echo $?; env -i $p c; done; done; sh -c './large d; exec ./large e'; (exec -a other ./large f); ln -s large link; ./link g; PATH=$W large h; cp large again; ./again; rm again");

    what_the_user_says_of_static_tls_stays |case| same(case.odd(),
        "for t in glibc.malloc.check=0 glibc.rtld.optional_static_tls=2048 glibc.rtld.optional_static_tls=0x100000:glibc.malloc.check=0 ''; do export GLIBC_TUNABLES=$t; ./large a; ./small; env | grep TUNABLES; sh -c './large b | cat'; done");

    scripts_and_loaders_keep_their_arguments |case| same(case.odd(),
        "printf '#!'$W'/large  -x y z\\n' > s; printf '#!'$W'/s  over\\n' > t; chmod +x s t; cp large first; printf '#!'$W'/first\\n' > u; chmod +x u; for again in 1 2; do ./s 1 2; ./t 3; $W/u ''; PATH=$W s 4; done; /lib64/ld-linux-x86-64.so.2 --argv0 zero ./large 5; LD_PRELOAD=$W/liblarge.so ./load 2>&1; LD_PRELOAD=$W/liblarge.so cat /dev/null; echo $?");

    libraries_opened_later_find_as_much_room |case| same(case.odd(),
        "./load ./libsmall.so; ./load ./libother.so; ./load ./liblarge.so; LD_PRELOAD=$W/liblarge.so ./load ./libsmall.so; LD_PRELOAD=$W/libother.so ./load ./libsmall.so");
}

on_each_driver! {
    of_a_program_on_a_mount |case| same(case,
        "cp -p *.so large foreign $M; cd $M; for again in 1 2; do LD_LIBRARY_PATH=$M ./large a; env -i $M/foreign; printf '#!'$M'/large\\n' > s; chmod +x s; ./s b; $M/s c; done | sed s,$M,MOUNT,");
}

/// rustc's own libraries need 24 KB.
#[test]
fn rustc_compiles_without_any_variable() {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return;
    };
    let rustc = Path::new(&cargo).with_file_name("rustc");
    let case = Case::new("static-tls-rustc", User::Me).directory(Driver::Memory);
    case.good(&format!(
        "cd $M; echo 'fn main() {{ println!(\"compiled\"); }}' > p.rs; {} p.rs && ./p",
        rustc.display()
    ));
}
