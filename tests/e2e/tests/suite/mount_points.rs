//! Mount points that no file system has a directory for are listed where they lie, as those of the
//! kernel are.

use culvert_e2e::{Case, User, open_to_all, world};
use std::{fs, path::Path};

/// Directories for two mounts, `host/none` and in that one `host/none/new`; natively the mount
/// points are there.
fn layout(base: &Path, native: bool) {
    let _ = fs::remove_dir_all(base);
    for directory in ["first/x", "second/y", "host/sub"] {
        fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
    }
    for file in ["first/f", "second/g", "host/file"] {
        fs::write(base.join(file), file).expect("the directory is ours");
    }
    if native {
        for point in ["host/none", "first/new"] {
            fs::create_dir(base.join(point)).expect("the directory is ours");
        }
    }
    for directory in [
        "", "first", "second", "host", "host/sub", "first/x", "second/y",
    ] {
        open_to_all(&base.join(directory));
    }
}

/// The same is listed, found and entered as natively, whatever serves the two mounts, and on any
/// file system.
fn listed(base: &Path, user: User, first: &str, second: &str) {
    if !world().is_root() {
        return;
    }
    let name = format!(
        "mount-points-{}-{first}-{second}-{user:?}",
        base.starts_with("/dev")
    );
    let case = Case::new(&name.replace([':', ',', '='], ""), user);
    let listing = case.program("listing");
    let at = base.display();
    let script = script!("mount_points/listed.sh", listing, at);
    layout(base, true);
    let native = case.alone(&[
        "unshare",
        "-m",
        "bash",
        "-c",
        &script!("mount_points/listed-2.sh", at, script),
    ]);
    for pure in [true, false] {
        layout(base, false);
        let (one, two) = (
            format!("{at}/first:{at}/host/none{first}"),
            format!("{at}/second:{at}/host/none/new{second}"),
        );
        let mut words = vec!["run", "-v", &one, "-v", &two];
        if pure {
            words.push("--no-private");
        }
        words.extend(["--", "bash", "-c", &script]);
        let ours = case.culvert(&words);
        assert_eq!(ours.text(), native.text(), "{words:?}\n{}", ours.report());
    }
    fs::remove_dir_all(base).expect("the directory is ours");
}

macro_rules! listed {
    ($($name:ident $first:literal $second:literal;)*) => { $(
        #[test]
        fn $name() {
            for place in ["/dev/shm", "/var/tmp"] {
                let base = Path::new(place).join(format!(
                    "culvert-mount-points-{}-{}", stringify!($name), std::process::id()
                ));
                // As root natively, where the mounts are made.
                listed(&base, User::Me, $first, $second);
            }
        }
    )* };
}

listed! {
    both_passed_through "" "";
    a_driver_in_a_tree "" ":driven";
    a_tree_in_a_driver ":driven" "";
    drivers_only ":driven,descriptor=no" ":driven";
}

/// Directories above a target that do not exist are there, hold the target alone, and cannot be
/// changed.
fn parents_appear(user: User, options: &str) {
    if !world().is_root() {
        return;
    }
    let name = format!("mount-points-parents-{user:?}{options}");
    let case = Case::new(&name.replace([':', ','], ""), user);
    let base =
        Path::new("/var/tmp").join(format!("culvert-parents-{}-{user:?}", std::process::id()));
    let at = base.display();
    let script = script!("mount_points/parents_appear.sh", at);
    layout(&base, false);
    fs::create_dir_all(base.join("host/a/b/c")).expect("the directory is ours");
    fs::create_dir_all(base.join("host/a/b/d")).expect("the directory is ours");
    let native = case.alone(&[
        "unshare",
        "-m",
        "bash",
        "-c",
        &script!("mount_points/parents_appear-2.sh", at, script),
    ]);
    layout(&base, false);
    let (one, two) = (
        format!("{at}/first:{at}/host/a/b/c{options}"),
        format!("{at}/second:{at}/host/a/b/d{options}"),
    );
    let script = format!("exec 2>&1; {script}");
    for pure in [true, false] {
        let mut words = vec!["run", "-v", &one, "-v", &two];
        if pure {
            words.push("--no-private");
        }
        words.extend(["--", "bash", "-c", &script]);
        let ours = case.culvert(&words);
        assert_eq!(ours.text(), native.text(), "{words:?}\n{}", ours.report());
    }
    assert!(!base.join("host/a").exists());
    fs::remove_dir_all(&base).expect("the directory is ours");
}

#[test]
fn directories_above_a_target_appear() {
    for options in ["", ":driven"] {
        parents_appear(User::Me, options);
    }
}
