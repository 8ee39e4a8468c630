//! Marks that random operations do not make.

use crate::ours::Ours;
use crate::steps::Step;
use crate::tools::{Scratch, root};
use culvert::{Errno, FileSystem, testing::caller};

/// The paths that `fs` shows.
fn paths(fs: &dyn FileSystem) -> Vec<String> {
    Ours(fs).tree().into_keys().collect()
}

fn step(fs: &dyn FileSystem, step: &Step) {
    Ours(fs).step(step).unwrap();
}

#[test]
fn lower_copies_without_bytes_have_those_below() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("l2/f", "data0123");
    scratch.sh("mkdir l1; truncate -s 8 l1/f l1/lost
        setfattr -n trusted.overlay.metacopy l1/f; setfattr -n trusted.overlay.metacopy l1/lost");
    let overlay = scratch.open("upper", &["l1", "l2"], &[]);
    let lost = overlay.lookup(&caller(), overlay.root(), b"lost");
    assert_eq!(lost.unwrap_err().errno(), Errno::EIO);
    scratch.sh("rm l1/lost");
    let overlay = scratch.open("upper", &["l1", "l2"], &[]);
    let shown = || Ours(&*overlay).tree()["/f"].clone();
    assert!(shown().contains("8 data0123"), "{}", shown());
    step(&*overlay, &Step::Append("f".into(), "more".into()));
    assert!(shown().contains("12 data0123more"), "{}", shown());
}

#[test]
fn redirects_that_do_not_count_are_refused() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("l2/old/f", "");
    scratch.sh("mkdir -p l1/new l1/wrong; setfattr -n trusted.overlay.redirect -v /old l1/new");
    scratch.sh("setfattr -n trusted.overlay.redirect -v a/b l1/wrong");
    let found = |option: &str, name: &str| {
        let overlay = scratch.open("", &["l1", "l2"], &[option]);
        let found = overlay.lookup(&caller(), overlay.root(), name.as_bytes());
        found.map_err(|error| error.errno()).map(drop)
    };
    assert_eq!(found("redirect_dir=follow", "new"), Ok(()));
    assert_eq!(found("redirect_dir=nofollow", "new"), Err(Errno::EPERM));
    assert_eq!(found("redirect_dir=follow", "wrong"), Err(Errno::EINVAL));
}

#[test]
fn an_opaque_directory_stays_opaque_below_whiteouts_that_are_files() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("low/d/old", "");
    scratch.write("low/f", "");
    let mount = scratch.prepare("upper", &["low"], &["whiteouts=xattr"]);
    let mount = mount.unwrap();
    let overlay = scratch.open_again(&mount);
    for one in [
        Step::Unlink("d/old".into()),
        Step::Rmdir("d".into()),
        Step::Mkdir("d".into()),
        Step::Rename("f".into(), "d/f".into()),
    ] {
        step(&*overlay, &one);
    }
    assert_eq!(paths(&*overlay), ["/d", "/d/f"]);
    assert_eq!(paths(&*scratch.open_again(&mount)), ["/d", "/d/f"]);
}

#[test]
fn redirects_lead_through_several_lower_layers() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    // What is opaque on the way hides what lies below.
    scratch.write("l1/a/b/shown", "");
    scratch.write("l2/a/b/hidden", "");
    // The upper one of the lower layers has renamed `y` to `x`.
    scratch.write("l2/y/d/f", "");
    scratch.sh("setfattr -n trusted.overlay.opaque -v y l1/a
        mkdir l1/x; mknod l1/y c 0 0; setfattr -n trusted.overlay.redirect -v y l1/x");
    let mount = scratch.prepare("upper", &["l1", "l2"], &["redirect_dir=on"]);
    let mount = mount.unwrap();
    let overlay = scratch.open_again(&mount);
    step(&*overlay, &Step::Rename("a/b".into(), "c".into()));
    step(&*overlay, &Step::Rename("x/d".into(), "z".into()));
    let expected = ["/a", "/c", "/c/shown", "/x", "/z", "/z/f"];
    assert_eq!(paths(&*overlay), expected);
    assert_eq!(paths(&*scratch.open_again(&mount)), expected);
}

#[test]
fn a_name_like_dockers_whiteouts_is_not_moved_to() {
    let scratch = Scratch::new();
    let overlay = scratch.open("memory", &["low"], &["oci=all"]);
    let write = Step::Write("a".into(), "new".into());
    step(&*overlay, &write);
    let moved = Ours(&*overlay).step(&Step::Rename("a".into(), ".wh.b".into()));
    assert_eq!(moved.unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(paths(&*overlay), ["/a"]);
}
