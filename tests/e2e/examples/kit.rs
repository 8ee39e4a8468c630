//! The conformance kit on a directory, from outside, by the driver passthrough:
//! `kit read|store|write DIRECTORY RUN [NAME=CONTENT]...`, where RUN is a directory of its own.
//!
//! `read` compares with the files that are named; `store` and `write` remove all there is, change
//! it as programs do, and read: files alone, or a tree. Each failure is a line, `RULE: WHAT`.

use culvert::{
    FileSystem,
    mount::Mount,
    testing::{Report, Tree, fill, reading, writing},
};
use culvert_drivers::{Environment, passthrough};
use std::{fs, os::unix::ffi::OsStrExt, path::Path};

fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("a name").path();
        match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(path).expect("ours"),
            false => fs::remove_file(path).expect("ours"),
        }
    }
}

fn outside(directory: &Path, run: &Path) -> Box<dyn FileSystem> {
    let mount = Mount {
        driver: "passthrough".into(),
        source: directory.as_os_str().as_bytes().to_vec(),
        target: b"/mnt".to_vec(),
        options: Vec::new(),
        branches: Vec::new(),
    };
    let environment = Environment {
        run_directory: Some(run.as_os_str().as_bytes()),
        ..Environment::default()
    };
    let prepared = passthrough::prepare(&mount, &environment, &mut |_| ()).expect("a mount");
    passthrough::open(&prepared.mount, &environment).expect("a file system")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [how, directory, run, names @ ..] = &words[..] else {
        panic!("kit read|store|write DIRECTORY RUN [NAME=CONTENT]...")
    };
    let (directory, run) = (Path::new(directory), Path::new(run));
    let mut tree = Tree::new();
    let mut report = Report::default();
    if how == "read" {
        for name in names {
            let (name, content) = name.split_once('=').expect("NAME=CONTENT");
            tree = tree.file(name, format!("{content}\n")).permissions(0o444);
        }
    } else {
        report = writing(&|| {
            empty(directory);
            outside(directory, run)
        });
        empty(directory);
        tree = tree
            .file("hello", "hello\n")
            .file("nothing", "")
            .file("large", vec![7; 100_000]);
        if how == "write" {
            tree = tree
                .directory("empty")
                .directory("a")
                .directory("a/b")
                .file("a/b/deep", "deep\n")
                .symlink("a/soft", "../hello")
                .hard_link("same", "hello");
        }
        fill(&*outside(directory, run), &tree).expect("files");
    }
    let read = reading(&*outside(directory, run), &tree);
    report.failures.extend(read.failures);
    for failure in &report.failures {
        println!("{}: {}", failure.rule, failure.what.replace('\n', " "));
    }
    println!("{} checks", report.checks + read.checks);
}
