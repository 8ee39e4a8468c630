//! The trees and archives that are measured.

use crate::tools::{Place, sh};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a tree of real headers and sources in memory, about a hundred megabytes, and a tar, tar.gz
/// and zip of it.
pub fn real_tree(place: &Place) {
    let tree = place.path("tree");
    if Path::new(&tree).exists() {
        return;
    }
    sh(&format!(
        "mkdir -p {tree} {mnt} && cd {tree} && mkdir include share src
         cp -rL --no-preserve=all /usr/include/. include/ 2>/dev/null || :
         for c in $(ls -d ${{CARGO_HOME:-$HOME/.cargo}}/registry/src/*/* 2>/dev/null | head -n \
         20); do cp -r --no-preserve=all $c src/; done
         cp -r --no-preserve=all /usr/share/perl share/ 2>/dev/null || cp -r --no-preserve=all \
         /usr/share/doc share/ 2>/dev/null || :
         find . -size +4M -delete; find . ! -type d ! -type f -delete
         tar --sort=name -cf ../tree.tar . && gzip -kf -6 ../tree.tar && zip -q -r ../tree.zip .",
        mnt = place.path("mnt")
    ));
}

/// A tar of a project of a size that one notices: 1,000 sources with a Makefile.
pub fn project(place: &Place) -> String {
    let archive = place.path("project.tar");
    if !Path::new(&archive).exists() {
        sh(&format!(
            "mkdir {0}/project && cd {0}/project && for i in $(seq 200); do mkdir -p d$((i % \
            20)); for j in 1 2 3 4 5; do \
             echo \"int f_${{i}}_$j(int x) {{ return x * $i + $j; }}\" > d$((i % \
             20))/f_${{i}}_$j.c; done; done
             printf 'all: $(patsubst %%.c,%%.o,$(wildcard d1/*.c))\\n\\tcc -shared -o all.so \
             d1/*.o\\n%%.o: %%.c\\n\\tcc -c -o $@ $<\\n' > Makefile
             tar -cf {archive} -C {0} project",
            place.path("")
        ));
    }
    archive
}

/// A package with a configure script of autoconf, as its archive and its name; none where there is
/// no source of one.
pub fn configure(place: &Place) -> Option<(String, String)> {
    let source = sh("ls ${CONFIGURE_SOURCE:-/usr/src/*.orig.tar.?z} 2>/dev/null | head -n 1");
    let source = Path::new(source.trim());
    let Some(name) = source.file_name().and_then(|name| name.to_str()) else {
        eprintln!(
            "not measured: no /usr/src/*.orig.tar.?z (apt-get source --download-only hello, or \
            CONFIGURE_SOURCE=path)"
        );
        return None;
    };
    let archive = place.path(name);
    sh(&format!(
        "cp {} {archive} && chmod 644 {archive}",
        source.display()
    ));
    let package = name.split(".orig").next().unwrap_or(name).replace('_', " ");
    Some((archive, package))
}

/// A tar.gz with one member of a gigabyte, kept in the target directory from run to run.
pub fn gigabyte() -> String {
    let kept = std::env::current_exe()
        .expect("the running program has a name")
        .with_file_name("bench-fixtures");
    std::fs::create_dir_all(&kept).expect("the target directory can be written");
    let (archive, fresh) = (kept.join("gigabyte.tar.gz"), kept.join("new.tar.gz"));
    if !archive.exists() {
        eprintln!("making {}", archive.display());
        let file = std::fs::File::create(&fresh).expect("the target directory can be written");
        let mut gzip = Command::new("gzip")
            .arg("-1")
            .stdin(Stdio::piped())
            .stdout(file)
            .spawn()
            .expect("there is gzip");
        let mut pipe = gzip.stdin.take().expect("standard input was asked for");
        write_gigabyte(&mut pipe).expect("gzip reads to the end");
        drop(pipe);
        assert!(gzip.wait().expect("gzip ends").success());
        std::fs::rename(&fresh, &archive).expect("the target directory can be written");
    }
    archive.to_str().expect("a plain name").to_owned()
}

/// Writes a tar with the member `member`: lines of a log, a third of their size when compressed.
fn write_gigabyte(out: &mut impl Write) -> std::io::Result<()> {
    const SIZE: usize = 1 << 30;
    let mut header = [0_u8; 512];
    header[..6].copy_from_slice(b"member");
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{SIZE:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&header)?;
    let (mut state, mut written, mut block) = (1_u64, 0, Vec::with_capacity(1 << 20));
    while written < SIZE {
        block.clear();
        while block.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let words = [
                "GET /index.html",
                "POST /api/v1/items",
                "GET /static/app.js",
                "PUT /api/v1/items/17",
            ];
            let (word, status) = (
                words[state as usize % 4],
                [200, 304, 404, 500][(state >> 8) as usize % 4],
            );
            writeln!(
                block,
                "10.{}.{}.7 - [{:010}] \"{word}\" {status} {}",
                state >> 16 & 255,
                state >> 24 & 255,
                state >> 32 & 0xff_ffff,
                state >> 40
            )?;
        }
        let take = block.len().min(SIZE - written);
        out.write_all(&block[..take])?;
        written += take;
    }
    out.write_all(&[0; 1024])
}
