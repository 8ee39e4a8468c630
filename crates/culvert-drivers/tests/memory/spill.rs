//! File systems that are larger than their memory.

use crate::{
    limits, processes, random,
    tools::{Mapped, Run},
    worker,
};
use culvert::{
    Errno, File, FileSystem, OpenFlags, Opened, mount::Mount, testing::caller, testing::writing,
};
use culvert_drivers::memory::{Files, list_regions};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    process::Command,
};

/// One with a little memory, of which the rest is spilled.
fn spilled(run: &Run) -> (Mount, Box<dyn FileSystem>) {
    run.fresh(&[
        ("size", "300k"),
        ("spill", &run.spill()),
        ("spill-size", "1g"),
    ])
}

fn create(fs: &dyn FileSystem, name: &str) -> Box<dyn File> {
    let made = fs.create(
        &caller(),
        fs.root(),
        name.as_bytes(),
        OpenFlags::READ_WRITE,
        0o644,
    );
    match made.unwrap().1 {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("backed"),
    }
}

/// Bytes that tell where they are.
fn pattern(number: u64, length: usize) -> Vec<u8> {
    let byte = |at: usize| (at as u64 / 7 * (number + 3) + number) as u8 | 1;
    (0..length).map(byte).collect()
}

fn content(file: &dyn File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length + 1];
    let count = file.read_at(0, &mut &mut bytes[..]).unwrap();
    bytes.truncate(count);
    bytes
}

fn pages(run: &Run) -> u64 {
    let spills = std::fs::read_dir(run.spill()).unwrap();
    let pages = spills.map(|spill| spill.unwrap().path().join("pages"));
    pages.map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn a_file_system_that_spills_conforms() {
    let run = Run::new();
    let spill = run.spill();
    let mounts = RefCell::new(Vec::new());
    writing(&|| {
        let options = [
            ("size", "256k"),
            ("spill", &spill[..]),
            ("spill-size", "1g"),
        ];
        let mount = run.prepare("memory", &options).unwrap();
        let made = run.open(&mount).unwrap();
        mounts.borrow_mut().push(mount);
        made
    })
    .assert_ok();
    for mount in mounts.into_inner() {
        run.assert_consistent(&mount);
    }
}

#[test]
fn random_operations_that_spill_do_as_the_reference_does() {
    random::as_the_reference(6, spilled);
}

#[test]
fn killed_processes_leave_a_consistent_spill() {
    let run = Run::new();
    let made = run.fresh(&[
        ("size", "1m"),
        ("spill", &run.spill()),
        ("spill-size", "15m"),
    ]);
    processes::killed_ones(&run, made, 36);
    assert!(pages(&run) > 0, "something was spilled");
}

#[test]
fn a_full_spill_is_no_space_and_works_again() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[
        ("size", "4m"),
        ("spill", &run.spill()),
        ("spill-size", "8m"),
    ]);
    limits::fill_and_empty(&*fs);
    drop(fs);
    run.assert_consistent(&mount);
    assert!(pages(&run) <= 8 << 20);
}

/// Fills it, looks at all that was written, removes half of it and fills that again: nothing is
/// lost, nothing is mixed, and the spill does not grow.
fn nothing_is_lost(run: &Run, (mount, fs): (Mount, Box<dyn FileSystem>)) {
    const LENGTH: usize = 100_000;
    let mut files = Vec::new();
    let fill = |files: &mut Vec<(u64, Box<dyn File>, usize)>, mut number: u64| {
        loop {
            let file = create(&*fs, &format!("file {number}"));
            let bytes = pattern(number, LENGTH);
            let mut written = 0;
            while written < LENGTH {
                match file.write_at(written as u64, &mut &bytes[written..]) {
                    Ok(count) => written += count,
                    Err(error) => {
                        assert_eq!(error.errno(), Errno::ENOSPC);
                        break;
                    }
                }
            }
            files.push((number, file, written));
            number += 1;
            if written < LENGTH {
                break number;
            }
        }
    };
    let check = |files: &[(u64, Box<dyn File>, usize)]| {
        for (number, file, written) in files {
            let want = &pattern(*number, LENGTH)[..*written];
            assert!(content(&**file, LENGTH) == want, "file {number}");
        }
    };
    let next = fill(&mut files, 0);
    check(&files);
    let size = pages(run);
    assert!(size > 0);
    let mut kept = Vec::new();
    for (at, (number, file, written)) in files.into_iter().enumerate() {
        match at % 2 {
            0 => kept.push((number, file, written)),
            _ => {
                let name = format!("file {number}");
                fs.unlink(&caller(), fs.root(), name.as_bytes()).unwrap();
            }
        }
    }
    let before = kept.len();
    fill(&mut kept, next);
    assert!(
        kept.len() > before + before / 2,
        "what was freed is used again"
    );
    check(&kept);
    assert_eq!(pages(run), size);
    drop(kept);
    drop(fs);
    run.assert_consistent(&mount);
}

#[test]
fn nothing_is_lost_where_the_spill_is_full() {
    let run = Run::new();
    let spill = run.spill();
    let made = run.fresh(&[("size", "1m"), ("spill", &spill), ("spill-size", "5m")]);
    nothing_is_lost(&run, made);
}

/// On tmpfs of a few megabytes, where these may be mounted: what the place of the memory does not
/// hold is spilled, and a directory without room is ENOSPC.
#[test]
fn nothing_is_lost_where_both_places_are_full() {
    let run = Run::new();
    let spill = run.spill();
    let Some(_memory) = Mounted::new("tmpfs", &run.directory(), "size=3m,mode=700") else {
        return;
    };
    let Some(_directory) = Mounted::new("tmpfs", Path::new(&spill), "size=4m,mode=700") else {
        return;
    };
    let made = run.fresh(&[("size", "100m"), ("spill", &spill), ("spill-size", "1g")]);
    nothing_is_lost(&run, made);
}

/// A file system of the kernel's, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// None where nobody may mount.
    fn new(kind: &str, place: &Path, options: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", options, kind])
            .arg(place)
            .stderr(std::process::Stdio::null())
            .status();
        let done = mounted.is_ok_and(|status| status.success());
        done.then(|| Self(place.to_path_buf()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What a mapped file gave back to the place of the memory may be another's by now: the rest is
/// spilled.
#[test]
fn what_was_given_back_and_is_gone_is_spilled() {
    let run = Run::new();
    let spill = run.spill();
    let Some(_memory) = Mounted::new("tmpfs", &run.directory(), "size=6m,mode=700") else {
        return;
    };
    let (mount, fs) = run.fresh(&[("size", "4m"), ("spill", &spill), ("spill-size", "1g")]);
    let file = create(&*fs, "mapped");
    let bytes = pattern(1, 3_500_000);
    file.write_at(0, &mut &bytes[..]).unwrap();
    let mapped = Mapped::new(&*file, bytes.len(), true).unwrap();
    let others = run.directory().join("others");
    assert!(std::fs::write(&others, vec![1; 6 << 20]).is_err(), "full");
    let more = create(&*fs, "more");
    assert_eq!(more.write_at(0, &mut &bytes[..]).unwrap(), bytes.len());
    assert!(content(&*more, bytes.len()) == bytes);
    assert!(mapped.bytes(0..bytes.len()) == bytes);
    std::fs::remove_file(&others).unwrap();
    drop((more, mapped, file, fs));
    run.assert_consistent(&mount);
}

/// ramfs has no fallocate: space is written, content is not.
#[test]
fn a_directory_without_fallocate_loses_nothing() {
    let run = Run::new();
    let spill = run.spill();
    let Some(_directory) = Mounted::new("ramfs", Path::new(&spill), "mode=700") else {
        return;
    };
    let options = [("size", "1m"), ("spill", &spill[..]), ("spill-size", "9m")];
    let (mount, fs) = run.fresh(&options);
    let file = create(&*fs, "file");
    let bytes = pattern(1, 3_000_000);
    file.write_at(0, &mut &bytes[..]).unwrap();
    file.allocate(0, 3_100_000, 5000).unwrap();
    let mapped = Mapped::new(&*file, bytes.len(), true).unwrap();
    mapped.store(7, b"stored");
    for (mode, offset) in [(0, 0), (0, 3_000_000), (3, 4096)] {
        let refused = file.allocate(mode, offset, 1 << 20).unwrap_err();
        assert_eq!(refused.errno(), Errno::EOPNOTSUPP);
    }
    let want = [&bytes[..7], b"stored", &bytes[13..], &[0; 105_000]].concat();
    assert!(content(&*file, want.len()) == want);
    // What it had in memory and in the spill is used again.
    drop(mapped);
    let more = create(&*fs, "more");
    assert_eq!(more.write_at(0, &mut &bytes[..]).unwrap(), bytes.len());
    assert!(content(&*more, bytes.len()) == bytes);
    assert!(content(&*file, want.len()) == want);
    drop((more, file, fs));
    run.assert_consistent(&mount);
    let run = Run::new();
    let spill = run.spill();
    let Some(_directory) = Mounted::new("ramfs", Path::new(&spill), "mode=700") else {
        return;
    };
    let made = run.fresh(&[("size", "1m"), ("spill", &spill), ("spill-size", "5m")]);
    nothing_is_lost(&run, made);
}

/// A process that may have no larger files is told so; others go on in memory.
#[test]
fn a_limit_of_one_process_moves_nothing_for_others() {
    const LENGTH: usize = 1_500_000;
    if let Some((fs, _, blocks)) = worker::join() {
        let limit = [blocks << 12; 2];
        culvert_sys::process::setrlimit(culvert_sys::raw::general::RLIMIT_FSIZE, &limit).unwrap();
        let file = create(&*fs, "limited");
        let bytes = pattern(1, LENGTH);
        let mut at = 0;
        let error = loop {
            match file.write_at(at as u64, &mut &bytes[at..]) {
                Ok(count) => at += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.errno(), Errno::ENOSPC);
        return;
    }
    // Growth is tried by twos in the end, so that one block may be left, or none.
    for blocks in 148..152 {
        let run = Run::new();
        let (mount, fs) = run.fresh(&[("size", "4m"), ("spill", &run.spill())]);
        let name = "spill::a_limit_of_one_process_moves_nothing_for_others";
        let mut worker = worker::start(name, &mount, blocks);
        assert!(worker.wait().unwrap().success());
        let file = create(&*fs, "file");
        file.write_at(0, &mut &pattern(2, LENGTH)[..]).unwrap();
        let listed = list_regions(&mount.source, Some(b"file")).unwrap();
        let spilled = |file: Files| listed.regions.iter().any(|(region, _)| region.file == file);
        assert!(!spilled(Files::Spill), "{blocks} blocks");
    }
}

#[test]
fn a_spill_below_its_own_mount_is_refused() {
    let run = Run::new();
    for spill in ["/mnt", "/mnt/below"] {
        let refused = run.prepare("memory", &[("spill", spill)]).unwrap_err();
        assert_eq!(refused.errno(), Errno::EINVAL);
    }
}

#[test]
fn processes_share_what_is_spilled() {
    const LENGTH: usize = 3_000_000;
    if let Some((fs, _, number)) = worker::join() {
        let file = create(&*fs, &format!("of {number}"));
        let bytes = pattern(number, LENGTH);
        assert_eq!(file.write_at(0, &mut &bytes[..]).unwrap(), LENGTH);
        // As the child of a fork has it: what is mapped stays, the slot is the parent's.
        fs.forked(false);
        assert_eq!(file.write_at(LENGTH as u64, &mut &b"more"[..]).unwrap(), 4);
        return;
    }
    let run = Run::new();
    let (mount, fs) = spilled(&run);
    let name = "spill::processes_share_what_is_spilled";
    let workers: Vec<_> = (0..3)
        .map(|number| worker::start(name, &mount, number))
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    for number in 0..3 {
        let file = create(&*fs, &format!("of {number}"));
        let want = [&pattern(number, LENGTH)[..], b"more"].concat();
        assert!(content(&*file, want.len()) == want, "of {number}");
    }
    run.assert_consistent(&mount);
}

#[test]
fn regions_say_where_the_bytes_are() {
    use std::os::unix::fs::FileExt;
    let run = Run::new();
    let (mount, fs) = spilled(&run);
    for (name, offset, length) in [
        ("in the inode", 0, 100),
        ("short", 0, 5000),
        ("long", 3, 900_000),
        ("with a hole", 500_000, 70_000),
    ] {
        let file = create(&*fs, name);
        let bytes = pattern(length, length as usize);
        file.write_at(offset, &mut &bytes[..]).unwrap();
        let want = content(&*file, 1 << 20);
        let listed = list_regions(&mount.source, Some(name.as_bytes())).unwrap();
        let mut found = vec![0; want.len()];
        for (region, path) in &listed.regions {
            let path = std::str::from_utf8(path).unwrap();
            let part = &mut found[region.offset as usize..][..region.length as usize];
            let from = std::fs::File::open(path).unwrap();
            from.read_exact_at(part, region.at).unwrap();
        }
        assert!(found == want, "{name}");
        let spills = |file: Files| listed.regions.iter().any(|(region, _)| region.file == file);
        assert!(spills(Files::Spill) || length < 10_000, "{name}");
        let covered: u64 = listed.regions.iter().map(|(region, _)| region.length).sum();
        assert!(covered <= length + 4096, "{name}: holes have no region");
    }
    let all = list_regions(&mount.source, None).unwrap();
    assert!(all.paths[1].is_some() && all.sizes[1] > 0);
}

/// A named one keeps its spill, and is found without the option.
#[test]
fn a_named_file_system_finds_its_spill() {
    let run = Run::new();
    let spill = run.spill();
    let options = [
        ("size", "256k"),
        ("spill", &spill[..]),
        ("spill-size", "9m"),
    ];
    let bytes = pattern(1, 2_000_000);
    {
        let mount = run.prepare("memory:named", &options).unwrap();
        let fs = run.open(&mount).unwrap();
        let file = create(&*fs, "file");
        assert_eq!(file.write_at(0, &mut &bytes[..]).unwrap(), bytes.len());
    }
    let mount = run.prepare("memory:named", &[]).unwrap();
    let fs = run.open(&mount).unwrap();
    assert!(content(&*create(&*fs, "file"), bytes.len()) == bytes);
    run.assert_consistent(&mount);
    // Who has none gets none.
    run.prepare("memory:other", &[]).unwrap();
    let refused = run.prepare("memory:other", &options).unwrap_err();
    assert_eq!(refused.errno(), Errno::EINVAL);
    // One that is lost is an error, not an empty file.
    drop(fs);
    for found in std::fs::read_dir(&spill).unwrap() {
        std::fs::remove_dir_all(found.unwrap().path()).unwrap();
    }
    let lost = run.prepare("memory:named", &[]).unwrap_err();
    assert_eq!(lost.errno(), Errno::EIO);
}

#[test]
fn policies_for_nodes_are_set_or_refused() {
    let run = Run::new();
    let sets = |policy: &str| match run.prepare("memory", &[("numa", policy)]) {
        Ok(_) => None,
        Err(error) => Some(error.errno()),
    };
    // A kernel without nodes, or a filter, has one answer to all.
    let all = sets("interleave");
    if matches!(all, Some(Errno::ENOSYS | Errno::EPERM)) {
        return;
    }
    assert_eq!(all, None);
    assert_eq!(sets("bind:0"), None);
    assert_eq!(sets("local"), None);
    assert_eq!(sets("bind:1000"), Some(Errno::EINVAL));
    assert_eq!(sets("bind"), Some(Errno::EINVAL));
    let (mount, fs) = run.fresh(&[("numa", "prefer:0"), ("size", "10m")]);
    let file = create(&*fs, "file");
    file.write_at(0, &mut &pattern(1, 1 << 20)[..]).unwrap();
    drop(file);
    run.assert_consistent(&mount);
}
