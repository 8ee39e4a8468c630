//! Containers that PLFS 2.5 itself has written, with its library (`plfs_open`, `plfs_write`,
//! `plfs_trunc`, `plfs_flatten_index`) built from the tag 2.5, by processes of our own:
//!
//! | container | how |
//! |---|---|
//! | `strided` | processes 0, 1, 2: ten times 20 bytes of `'a' + (7 * process + turn) % 26`, in turn |
//! | `flattened` | the same, then `plfs_flatten_index` |
//! | `overlaps` | `write` of 20 `a` at 0, 10 `b` at 5, 6 `c` at 12, `dd` at 40, a process each |
//! | `cut` | 20 `e`, `plfs_trunc` to 7, then to 15 |
//! | `can/linked` | "through a metalink", canonical back end `can`, shadow back end `sha` |
//!
//! `fixtures/plfs25.tar.gz` holds them; PLFS's back end was /tmp/plfs/fx.

use crate::tools::{Scratch, create_file, open_file, read_all, write_at};
use culvert::testing::caller;
use culvert_drivers::plfs::layout::{self, Record};
use std::process::Command;

/// The containers in the back ends of `scratch`.
fn unpack(scratch: &Scratch) {
    let archive = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/plfs/fixtures/plfs25.tar.gz"
    );
    let mut tar = Command::new("tar");
    tar.args(["-xzf", archive, "--no-same-owner", "-C"])
        .arg(&scratch.root);
    assert!(tar.status().unwrap().success());
    for name in ["strided", "overlaps", "cut", "flattened"] {
        let from = scratch.root.join("back1").join(name);
        std::fs::rename(from, scratch.backends[0].join(name)).unwrap();
    }
}

fn strided() -> Vec<u8> {
    let turns = (0..10).flat_map(|turn| (0..3).map(move |process| (process, turn)));
    turns
        .flat_map(|(process, turn)| [b'a' + (7 * process + turn) % 26; 20])
        .collect()
}

#[test]
fn containers_of_plfs_are_read() {
    let scratch = Scratch::new(1);
    unpack(&scratch);
    let fs = scratch.open(&[]);
    let overlaps = [b"aaaaabbbbbbbccccccaa", &[0u8; 20], &b"dd"[..]].concat();
    let cut = [&b"eeeeeee"[..], &[0; 8]].concat();
    for (name, want) in [
        ("strided", strided()),
        ("flattened", strided()),
        ("overlaps", overlaps),
        ("cut", cut),
    ] {
        let file = open_file(&*fs, name).unwrap();
        assert_eq!(read_all(&*file).unwrap(), want, "{name}");
        drop(file);
        let entry = fs.lookup(&caller(), fs.root(), name.as_bytes()).unwrap();
        assert_eq!(entry.attributes.size, want.len() as u64, "{name}");
        assert_eq!(entry.attributes.permissions, 0o600);
    }
}

#[test]
fn metalinks_of_plfs_are_followed() {
    let mut scratch = Scratch::new(1);
    unpack(&scratch);
    scratch.backends = vec![scratch.root.join("can"), scratch.root.join("sha")];
    // It names the back ends by their paths, which are others here.
    let link = scratch.backends[0].join("linked/hostdir.23");
    let [canonical, shadow] = [0, 1].map(|at| scratch.backends[at].to_str().unwrap().to_owned());
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(format!("{}{shadow}", canonical.len()), &link).unwrap();
    let mut mount = scratch.mount(&[]);
    mount.source = format!("{canonical}=canonical;{shadow}=shadow").into_bytes();
    let environment = culvert_drivers::Environment::default();
    let mount = culvert_drivers::prepare(&mount, &environment, &mut |_| ())
        .unwrap()
        .mount;
    let fs = crate::tools::open(&mount);
    let file = open_file(&*fs, "linked").unwrap();
    assert_eq!(read_all(&*file).unwrap(), b"through a metalink");
}

/// What we leave is what PLFS leaves: the same names, but for times and processes, the same bytes.
#[test]
fn containers_are_as_plfs_leaves_them() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&["host=vm", "num_hostdirs=4"]);
    let file = create_file(&*fs, "f");
    write_at(&*file, 10, b"abc");
    let container = scratch.backends[0].join("f");
    let names = |below: &str| {
        let list = std::fs::read_dir(container.join(below)).unwrap();
        let mut names: Vec<_> = list
            .map(|one| one.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sum = layout::hash(scratch.backends[0].to_str().unwrap().as_bytes()) as u32;
    let version = format!("version-tag.2.5.0-dat.1.0-chk.{sum}");
    assert_eq!(
        names(""),
        [".plfsaccess113918400", "hostdir.3", "meta", &version]
    );
    let pid = std::process::id();
    assert_eq!(names("meta"), [format!("open.vm.{pid}")]);
    let droppings = names("hostdir.3");
    let index = layout::dropping(layout::INDEX, droppings[1].as_bytes()).unwrap();
    assert_eq!((index.host, index.pid), (&b"vm"[..], pid));
    assert_eq!(layout::data_name(&index, pid), droppings[0].as_bytes());
    let bytes = std::fs::read(container.join("hostdir.3").join(&droppings[1])).unwrap();
    let record = Record::decode(&bytes).unwrap();
    assert_eq!((bytes.len(), record.logical, record.physical), (48, 10, 0));
    assert_eq!((record.length, record.id), (3, pid));
    assert!(record.begin <= record.end && record.begin > 1.6e9);
    drop(file);
    let meta = names("meta");
    assert!(
        meta.len() == 1 && meta[0].starts_with("13.3.") && meta[0].ends_with(".vm"),
        "{meta:?}"
    );
}
