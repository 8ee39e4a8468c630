//! The conformance kit of the driver API on the example in each language, from outside: on a kernel
//! mount of it, by the driver passthrough.

use crate::bindings::{JAVA, Place, ROOT, jdk};
use crate::kernel_mount::{culvert, possible};
use culvert::{
    FileSystem,
    mount::Mount,
    testing::{Failure, Tree, fill, reading, writing},
};
use culvert_drivers::{Environment, passthrough};
use std::{fs, os::unix::ffi::OsStrExt, path::Path};

/// What the examples do not do: a rule, and a part of what is said of it.
const NOT_OF_A_STORE: &[(&str, &str)] = &[
    // There are no directories, and who made one of the same name has not lost against a file.
    ("", "a directory: "),
    ("", "a tree: "),
    ("", " of a directory: "),
    ("mkdir", "mkdir: "),
    ("one-winner", "made, and failed otherwise"),
    // The umask of this process, which is not the kit's.
    ("mknod", "mknod of Regular"),
    // Where a store does not say that it keeps removed files, they are hidden, as libfuse does it:
    // ".fuse_hidden".
    ("unlink", "listing: Some([[46, 102, 117, 115, 101, "),
];

fn is_missing(failure: &Failure) -> bool {
    NOT_OF_A_STORE.iter().any(|(rule, part)| {
        (rule.is_empty() || *rule == failure.rule) && failure.what.contains(part)
    })
}

fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).expect("it is mounted") {
        fs::remove_file(entry.expect("it is mounted").path()).expect("ours");
    }
}

pub fn outside(directory: &Path, run: &Path) -> Box<dyn FileSystem> {
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

fn passes(place: &Place, kind: &str, options: &str) {
    if !possible() {
        return;
    }
    let (target, run) = (place.base.join("target"), place.base.join("run"));
    fs::create_dir_all(&run).expect("ours");
    let text = target.display().to_string();
    let mut words = vec!["mount", "-t", kind, "none", &text];
    if !options.is_empty() {
        words.splice(3..3, ["-o", options]);
    }
    let done = culvert(&words);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let mut report = writing(&|| {
        empty(&target);
        outside(&target, &run)
    });
    empty(&target);
    let tree = Tree::new()
        .file("hello", "hello\n")
        .file("nothing", "")
        .file("large", vec![7; 100_000]);
    let driver = outside(&target, &run);
    fill(&*driver, &tree).expect("files");
    let read = reading(&*driver, &tree);
    drop(driver);
    culvert(&["umount", &text]);
    report.failures.extend(read.failures);
    report.failures.retain(|failure| !is_missing(failure));
    report.assert_ok();
}

#[test]
fn a_store_in_java_passes_the_kit() {
    let place = Place::new("kit-java");
    if place.javac("$root/examples/java/KeyValue.java") {
        let (_, options) = JAVA.split_once(',').expect("a type");
        let options = options.replace("@base@", &place.base.display().to_string());
        passes(&place, "java", &options);
    }
}

#[test]
fn a_store_in_python_passes_the_kit() {
    let place = Place::new("kit-python");
    jdk();
    let options = format!("class={ROOT}/examples/python/keyvalue.py:KeyValue");
    passes(&place, "python", &options);
}

#[test]
fn a_store_in_cpp_passes_the_kit() {
    let place = Place::new("kit-cpp");
    place.cpp();
    passes(&place, &place.base.join("kv.so").display().to_string(), "");
}

#[test]
fn a_store_in_go_passes_the_kit() {
    let place = Place::new("kit-go");
    place.go();
    passes(&place, &place.base.join("kv.so").display().to_string(), "");
}
