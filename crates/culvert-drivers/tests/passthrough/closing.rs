//! More nodes than descriptors: what was not used for long is closed, and opened again by its
//! handle or by its name.

use crate::tools::{PLACES, Scratch, caller, find, mount, root};
use culvert::{Caller, Errno, FileSystem, Node, OpenFlags, Opened, RenameFlags};
use culvert_drivers::Environment;
use culvert_sys::raw::general::CAP_DAC_READ_SEARCH;
use culvert_sys::{nr, syscall};
use std::{
    fs,
    io::Read,
    os::{fd::FromRawFd, unix::fs::MetadataExt},
    thread,
};

/// Descriptors for nodes.
const LIMIT: usize = 8;
/// Files in each of the directories.
const FILES: usize = 20;
const DIRECTORIES: [&str; 4] = ["a", "a/b", "a/b/c", "d"];

fn errno<T>(result: culvert::Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// The driver over `scratch` with few descriptors.
fn few(scratch: &Scratch) -> Box<dyn FileSystem> {
    let environment = Environment {
        open_nodes: Some(LIMIT),
        ..Environment::default()
    };
    let mount = mount(&scratch.0, &[]);
    let prepared = culvert_drivers::prepare(&mount, &environment, &mut |_| {}).unwrap();
    culvert_drivers::open(&prepared.mount, &environment).unwrap()
}

/// Runs `test` in both places, by handles (root's alone) and by names.
fn both_ways(test: fn(&Scratch, &dyn FileSystem, bool)) {
    for place in PLACES {
        for by_names in [false, true] {
            if !by_names && !root() {
                continue;
            }
            let scratch = &Scratch::new(place);
            // What a thread gives up is gone with it.
            let run = || {
                if by_names && root() {
                    give_up_handles();
                }
                scratch.sh(
                    "for d in a a/b a/b/c d; do mkdir $d; for i in $(seq 20); do echo $d.$i > \
                    $d/$i; done; done",
                );
                test(scratch, &*few(scratch), by_names);
            };
            thread::scope(|scope| scope.spawn(run).join().unwrap());
        }
    }
}

/// Drops `CAP_DAC_READ_SEARCH` of this thread (capset(2)).
fn give_up_handles() {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable, the lower half of each first.
    let mut sets = [0u32; 6];
    let header = header.as_ptr() as usize;
    // SAFETY: the kernel writes two times three words.
    unsafe { syscall::call(nr::CAPGET, [header, sets.as_mut_ptr() as usize]) }.unwrap();
    for set in &mut sets[..2] {
        *set &= !(1 << CAP_DAC_READ_SEARCH);
    }
    // SAFETY: the kernel reads as many.
    unsafe { syscall::call(nr::CAPSET, [header, sets.as_ptr() as usize]) }.unwrap();
}

/// All files with what their paths are.
fn all(driver: &dyn FileSystem) -> Vec<(String, Node)> {
    let names = DIRECTORIES
        .iter()
        .flat_map(|directory| (1..=FILES).map(move |file| format!("{directory}/{file}")));
    names
        .map(|name| {
            let node = find(driver, &name).node;
            (name, node)
        })
        .collect()
}

/// Descriptors on what is in `scratch`.
fn held(scratch: &Scratch) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let links = all.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.starts_with(&scratch.0)).count()
}

fn text(driver: &dyn FileSystem, node: Node) -> String {
    let Opened::Backed(fd) = driver.open(&caller(), node, OpenFlags(0)).unwrap() else {
        panic!("a descriptor");
    };
    // SAFETY: the driver gives it away.
    let mut file = unsafe { fs::File::from_raw_fd(fd.into_raw()) };
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn few_descriptors_are_enough_for_many_nodes() {
    both_ways(|scratch, driver, _| {
        let nodes = all(driver);
        // The root, by which handles are opened too, and one that was too new to be closed.
        assert!(held(scratch) <= LIMIT + 3, "{}", held(scratch));
        for (name, node) in nodes.iter().rev() {
            let found = driver.attributes(&Caller::SYSTEM, *node).unwrap();
            let native = fs::metadata(scratch.0.join(name)).unwrap();
            assert_eq!((found.inode, found.size), (native.ino(), native.len()));
            let (directory, file) = name.rsplit_once('/').unwrap();
            assert_eq!(text(driver, *node), format!("{directory}.{file}\n"));
            assert!(held(scratch) <= LIMIT + 3);
        }
        // One number for one file, however often it was closed.
        assert_eq!(all(driver), nodes);
        for (_, node) in &nodes {
            driver.forget(*node, 2);
        }
        // To look for the deeper ones refers to the others once more.
        for directory in DIRECTORIES.iter().rev() {
            driver.forget(find(driver, directory).node, u64::MAX);
        }
        assert!(held(scratch) <= 2);
    });
}

#[test]
fn what_loses_its_name_is_kept_open() {
    both_ways(|scratch, driver, _| {
        let nodes = all(driver);
        let node = |name: &str| nodes.iter().find(|(known, _)| known == name).unwrap().1;
        let (a, d) = (find(driver, "a").node, find(driver, "d").node);
        driver.unlink(&caller(), a, b"1").unwrap();
        let removed = driver.mkdir(&caller(), d, b"new", 0o700).unwrap();
        driver.rmdir(&caller(), d, b"new").unwrap();
        let none = RenameFlags(0);
        driver
            .rename(&caller(), (a, b"2"), (d, b"2"), none)
            .unwrap();
        // Another name, of which alone it is known afterwards.
        let c = find(driver, "a/b/c").node;
        driver.link(&caller(), node("a/3"), c, b"link").unwrap();
        driver.unlink(&caller(), c, b"link").unwrap();
        driver.link(&caller(), node("a/4"), c, b"other").unwrap();
        driver.unlink(&caller(), a, b"4").unwrap();
        all_but(driver, &["a/1", "a/2", "a/4"]);
        for (gone, links) in [("a/1", 0), ("d/2", 0), ("a/3", 1), ("a/4", 1), ("a/2", 1)] {
            assert_eq!(
                driver
                    .attributes(&Caller::SYSTEM, node(gone))
                    .unwrap()
                    .links,
                links,
                "{gone}"
            );
        }
        assert_eq!(text(driver, node("a/1")), "a.1\n");
        assert_eq!(text(driver, node("a/2")), "a.2\n");
        assert_eq!(text(driver, node("a/4")), "a.4\n");
        assert_eq!(find(driver, "d/2").node, node("a/2"));
        let inside = driver.mkdir(&caller(), removed.attributes.node, b"x", 0o700);
        assert_eq!(errno(inside), Some(Errno::ENOENT));
        assert!(scratch.0.join("a/b/c/other").exists());
    });
}

/// Looks at all files but those.
fn all_but(driver: &dyn FileSystem, gone: &[&str]) {
    for directory in DIRECTORIES {
        for file in 1..=FILES {
            let name = format!("{directory}/{file}");
            if !gone.contains(&name.as_str()) {
                find(driver, &name);
            }
        }
    }
}

#[test]
fn what_is_moved_is_found() {
    both_ways(|_, driver, _| {
        let nodes = all(driver);
        let node = |name: &str| nodes.iter().find(|(known, _)| known == name).unwrap().1;
        let (top, a) = (driver.root(), find(driver, "a").node);
        let none = RenameFlags(0);
        driver
            .rename(&caller(), (a, b"b"), (top, b"moved"), none)
            .unwrap();
        driver
            .rename(&caller(), (top, b"d"), (a, b"d"), none)
            .unwrap();
        let exchange = RenameFlags(RenameFlags::EXCHANGE);
        driver
            .rename(&caller(), (a, b"5"), (a, b"6"), exchange)
            .unwrap();
        for file in 1..=FILES {
            for (before, now) in [("a/b", "moved"), ("a/b/c", "moved/c"), ("d", "a/d")] {
                let known = node(&format!("{before}/{file}"));
                assert_eq!(text(driver, known), format!("{before}.{file}\n"));
                assert_eq!(find(driver, &format!("{now}/{file}")).node, known);
            }
        }
        assert_eq!(text(driver, node("a/5")), "a.5\n");
        assert_eq!(find(driver, "a/6").node, node("a/5"));
    });
}

#[test]
fn what_others_have_done_is_not_mistaken() {
    both_ways(|scratch, driver, by_names| {
        let nodes = all(driver);
        let node = |name: &str| nodes.iter().find(|(known, _)| known == name).unwrap().1;
        // On the disk the new file gets the number of the old one.
        for file in 1..=FILES {
            scratch.sh(&format!("rm a/{file}; echo new > a/{file}"));
        }
        scratch.sh("mv a/b e");
        let a: Vec<Node> = (1..=FILES)
            .map(|file| find(driver, &format!("a/{file}")).node)
            .collect();
        for (file, new) in (1..=FILES).zip(a) {
            let old = node(&format!("a/{file}"));
            assert_ne!(old, new);
            assert_eq!(text(driver, new), "new\n");
            // Gone; or open all the time.
            match driver.attributes(&Caller::SYSTEM, old) {
                Ok(found) => assert_eq!(found.links, 0),
                Err(error) => assert_eq!(error.errno(), Errno::ESTALE),
            }
        }
        let moved = node("a/b/c/7");
        match driver.attributes(&Caller::SYSTEM, moved) {
            Ok(_) => {}
            Err(error) => assert!(by_names && error.errno() == Errno::ESTALE),
        }
        assert_eq!(find(driver, "e/c/7").node, moved);
        assert_eq!(text(driver, moved), "a/b/c.7\n");
    });
}
