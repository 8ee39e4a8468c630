//! Compilers and build tools that work on the mount.

use super::{good, same};
use culvert_e2e::{Case, Driver, User, installed, on_each_driver, sources};
use std::time::Duration;

on_each_driver! {
    gcc_and_make |case| {
        let lz4 = sources("lz4-sys");
        good(&case.limit(Duration::from_secs(150)), &format!(
            "cp -r {0}/liblz4/lib {0}/liblz4/programs {0}/liblz4/Makefile.inc .; mkdir build; make -s -C lib lib CFLAGS=-O0; make -s -C programs lz4 CFLAGS=-O0; ls -l lib/*.so* | awk '{{ print $1, $9, $10, $11 }}'; seq 30000 > f; programs/lz4 -q -1 f f.lz4; programs/lz4 -qdc f.lz4 | cmp - f; programs/lz4 -q -t f.lz4; stat -c %s f.lz4
             make -s -C lib CFLAGS=-O0 -q && echo up to date || echo not up to date; touch lib/lz4.c; make -C lib liblz4.a CFLAGS=-O0 -n | grep -c lz4; make -s -C lib install DESTDIR=$M/root PREFIX=/usr CFLAGS=-O0 > /dev/null; find root | sort
             cat > use.c <<'END'\n#include <lz4.h>\n#include <stdio.h>\nint main(void) {{ printf(\"%d\\n\", LZ4_compressBound(100)); return 0; }}\nEND\ncc -pipe -I root/usr/include -o use use.c -L root/usr/lib -llz4 -Wl,-rpath,$M/root/usr/lib; ./use; cc -I root/usr/include -o use2 use.c root/usr/lib/liblz4.a; ./use2; cc -g -save-temps -I lib -o use3 use.c lib/lz4.c; ./use3; ls use3*; ar x root/usr/lib/liblz4.a; ls *.o; strip use2; ./use2; objcopy --only-keep-debug use3 use3.debug; ranlib root/usr/lib/liblz4.a; ld -r -o all.o lz4.o lz4hc.o; nm all.o | grep -c ' T '; cc -c missing.c 2>&1 | head -n 1
             make -s -C programs clean > /dev/null; make -s -C lib clean > /dev/null; rm -f use3*.* *.o f.lz4 *.debug use use2 use3 root/usr/lib/lib*; grep -rl $M root | xargs -r sed -i s:$M:PLACE:g", lz4.display()));
    };

    programs_on_the_mount_are_replaced |case| same(&case,
        "cp /bin/echo e; ./e one; cp /bin/true t; ./t && echo true; mv t e; ./e not printed; cp /bin/echo new; mv new e; ./e two; cp /bin/true o; ./o; cp /bin/echo o; ./o written in place; cp /bin/true o; ./o not printed; cp /bin/cat c; ./c e | ./c | ./c | cmp - e && echo several at once; printf '#!/bin/sh\\necho script $0 $1\\n' > s; chmod +x s; ./s x; $M/s y; (cd /; $M/s z); printf '#!%s\\nabc\\n' $M/e > i; chmod +x i; ./i w; chmod -x s; ./s 2>/dev/null; echo $?; PATH=$M:$PATH; chmod +x s; s v");
}

/// cargo keeps locks, hard links, fingerprints by time, and a package cache. Only for whom the toolchain is installed.
fn cargo(driver: Driver) {
    // cargo, which runs the tests, tells them where it is; asked second, for who is not installed is noted down.
    if std::env::var_os("CARGO").is_none() && !installed("cargo") {
        return;
    }
    let home = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
    let rustup = std::env::var("RUSTUP_HOME")
        .unwrap_or_else(|_| format!("{}/.rustup", std::env::var("HOME").unwrap_or_default()));
    let package = if super::full() { "lz4-sys" } else { "shlex" };
    let case = Case::new(&format!("cargo-{}", driver.name()), User::Me)
        .directory(driver)
        .limit(Duration::from_secs(300))
        .variable("RUSTUP_HOME", rustup)
        .variable("CARGO_NET_OFFLINE", "true")
        .variable("CARGO_TERM_PROGRESS_WHEN", "never");
    good(
        &case,
        &format!(
            "export PATH={home}/bin:$PATH; cp -r {} vendor; mkdir -p p/src p/.cargo cargo-home; export CARGO_HOME=$M/cargo-home; cd p
             printf '[source.crates-io]\\nreplace-with = \"v\"\\n[source.v]\\ndirectory = \"%s\"\\n' $M/vendor > .cargo/config.toml
             printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\nbuild = \"build.rs\"\\n[dependencies]\\n{package} = \"*\"\\n' > Cargo.toml
             echo 'fn main() {{ std::fs::write(std::path::Path::new(&std::env::var(\"OUT_DIR\").unwrap()).join(\"x.rs\"), \"pub const X: u32 = 7;\").unwrap(); }}' > build.rs
             echo 'include!(concat!(env!(\"OUT_DIR\"), \"/x.rs\")); fn main() {{ println!(\"hello {{X}}\"); }} #[test] fn it() {{ assert_eq!(X, 7); }}' > src/main.rs
             b() {{ cargo \"$@\" 2>&1 | sed -E 's/ in [0-9.]+s//; s/ target\\(s\\)//; s/-[0-9a-f]{{16}}//g'; }}
             b build -q; b build; ./target/debug/p; touch src/main.rs; b build; sed -i 's/hello/again/' src/main.rs; b run -q; b test -q 2>&1 | grep 'test result' | sed 's/;.*//'; (b build -q --target-dir t2 & b build -q --target-dir t2; wait); ls t2/debug/p; find target -type f -links +1 | grep -c . | sed 's/[0-9]*[1-9]/linked/'; b clean -q; ls; rm -rf t2 $M/vendor $M/cargo-home",
            sources("").display()
        ),
    );
}

#[test]
fn cargo_builds_on_passthrough() {
    cargo(Driver::Passthrough);
}

#[test]
fn cargo_builds_on_driven() {
    cargo(Driver::Driven);
}

#[test]
fn cargo_builds_in_memory() {
    cargo(Driver::Memory);
}
