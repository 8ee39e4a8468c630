//! The conformance kit of the driver API.

use crate::tools::{Scratch, open, sh};
use culvert::testing::{Tree, reading};

/// The driver over an archive of a tree against the tree itself.
fn conforms(make: &str, archive: &str) {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir -p tree/a/b/c tree/empty; cd tree; echo hello > a/hello; : > a/nothing; seq 1 \
        50000 > a/b/numbers; truncate -s 1M sparse; printf x >> sparse; ln -s ../hello a/b/soft; \
        chmod 4711 a/hello; i=0; while [ $i -lt 300 ]; do echo $i > a/b/c/$i; i=$((i+1)); done",
    );
    sh(&scratch.0, make);
    let (fs, _) = open(&scratch.path(archive), &[("subdir", "tree")]).unwrap();
    let tree = Tree::of_directory(&scratch.path("tree")).unwrap();
    let tree = if archive.ends_with("zip") || archive.ends_with("gnu.tar") {
        // Times to the second only.
        tree.content_only()
    } else {
        tree
    };
    reading(&*fs, &tree).assert_ok();
}

#[test]
fn tar_conforms() {
    conforms(
        "ln tree/a/hello tree/same; tar --format=posix --sparse -cf t.tar tree",
        "t.tar",
    );
}

#[test]
fn gnu_tar_conforms() {
    conforms("tar --sparse -cf gnu.tar tree", "gnu.tar");
}

#[test]
fn compressed_tar_conforms() {
    conforms("tar --format=posix -czf t.tar.gz tree", "t.tar.gz");
}

#[test]
fn zip_conforms() {
    conforms("zip -qry t.zip tree", "t.zip");
}
