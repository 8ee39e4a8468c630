//! The conformance kit, as far as owners and modes that are derived let it.

use crate::tools::{layered, mkdir, node};
use culvert::RenameFlags;
use culvert::testing::{Memory, RULES, caller, reading, writing};

/// Owners and modes cannot be set there, links not made, so these rules are broken, and no others.
#[test]
fn the_contract_is_kept_but_for_owners_modes_and_who_makes_a_file() {
    const BROKEN: &[&str] = &[
        "attributes-agree",
        "chmod",
        "chown",
        "create",
        "create-existing",
        "mkdir",
        "mknod",
        "ownership",
        "privileges-dropped",
    ];
    assert!(
        BROKEN
            .iter()
            .all(|rule| RULES.iter().any(|one| one.0 == *rule))
    );
    let report = writing(&|| {
        layered(
            Box::new(Memory::new()),
            &[("view", "write"), ("fullwrite", "")],
        )
    });
    let other: Vec<_> = report
        .failures
        .iter()
        .filter(|failure| !BROKEN.contains(&failure.rule))
        .collect();
    assert!(other.is_empty(), "{other:#?}");
    let fs = layered(Box::new(Memory::new()), &[]);
    mkdir(&*fs, fs.root(), "Pictures");
    let tree = culvert::testing::Tree::new().directory("Pictures");
    reading(&*fs, &tree).assert_ok();
}

#[test]
fn the_contract_is_kept_in_a_shared_directory() {
    // What is below a user's obb, as a tree of its own.
    let fs = layered(Box::new(Memory::new()), &[("multiuser", "")]);
    let android = mkdir(&*fs, mkdir(&*fs, fs.root(), "3"), "Android");
    let obb = mkdir(&*fs, android, "obb");
    let (a, b) = (mkdir(&*fs, obb, "a"), mkdir(&*fs, obb, "b"));
    let deep = mkdir(&*fs, a, "deep");
    let walked = fs.walk(&caller(), obb, b"a/deep").unwrap();
    assert_eq!(walked.entry.unwrap().attributes.node, deep);
    // A directory is valid while one below it is, whatever was forgotten.
    fs.forget(a, 100);
    fs.forget(obb, 100);
    assert_eq!(fs.parent(deep).unwrap(), a);
    assert_eq!(node(&*fs, a, "deep").unwrap(), deep);
    let (from, to) = ((a, &b"deep"[..]), (b, &b"deeper"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    fs.forget(b, 100);
    assert_eq!(fs.parent(deep).unwrap(), b);
    assert_eq!(node(&*fs, b, "deeper").unwrap(), deep);
    fs.hold(deep).unwrap();
    fs.forget(deep, 100);
    assert_eq!(fs.path_of(deep).unwrap(), b"3/Android/obb/b/deeper");
    fs.release(deep);
}
