//! Many writers of one file, each with a file system of its own, as in processes of a run.

use crate::tools::{Scratch, create_file, open_file, open_for, read_all, truncate, write_at};
use culvert::{OpenFlags, Result, SetAttributes, Sink, Source, testing::caller};
use culvert_sys::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread;

/// The bytes of the pattern: `writers` write `count` records of `size` in turn.
fn expected(writers: usize, count: usize, size: usize) -> Vec<u8> {
    let each = (0..count).flat_map(|at| (0..writers).map(move |writer| letter(writer, at)));
    each.flat_map(|letter| vec![letter; size]).collect()
}

fn letter(writer: usize, at: usize) -> u8 {
    b'a' + ((writer * 7 + at) % 26) as u8
}

#[test]
fn containers_of_1_4_and_64_writers_read_back_exactly() {
    for backends in [1, 2, 3] {
        for writers in [1, 4, 64] {
            let (count, size) = (50, 100);
            let scratch = Scratch::new(backends);
            let mount = scratch.prepared(&[]);
            drop(create_file(&*crate::tools::open(&mount), "f"));
            thread::scope(|scope| {
                for writer in 0..writers {
                    let mut mount = mount.clone();
                    // Hosts of their own, so that droppings lie on all back ends.
                    let host = format!("host{}", writer % 7).into_bytes();
                    mount.options.push(("host".into(), host));
                    scope.spawn(move || {
                        let fs = crate::tools::open(&mount);
                        let file = open_for(&*fs, "f", OpenFlags::WRITE).unwrap();
                        for at in 0..count {
                            let offset = ((at * writers + writer) * size) as u64;
                            write_at(&*file, offset, &vec![letter(writer, at); size]);
                        }
                    });
                }
            });
            let fs = crate::tools::open(&mount);
            let file = open_file(&*fs, "f").unwrap();
            let want = expected(writers, count, size);
            assert!(read_all(&*file).unwrap() == want, "{writers} on {backends}");
            assert_eq!(file.attributes(&caller()).unwrap().size, want.len() as u64);
            // By a run of its own, and by the names in meta alone.
            let other = scratch.open(&[]);
            let entry = other.lookup(&caller(), other.root(), b"f").unwrap();
            assert_eq!(entry.attributes.size, want.len() as u64);
        }
    }
}

/// A file that is read and written by several at once shows each the others' bytes at once.
#[test]
fn what_one_has_written_all_others_read() {
    let scratch = Scratch::new(2);
    let mount = scratch.prepared(&[]);
    let all: Vec<_> = (0..4).map(|_| crate::tools::open(&mount)).collect();
    drop(create_file(&*all[0], "f"));
    let files: Vec<_> = all
        .iter()
        .map(|fs| open_for(&**fs, "f", OpenFlags::READ_WRITE).unwrap())
        .collect();
    let mut model = Vec::new();
    let mut state = 99u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for step in 0..3000 {
        let file = &files[random(4) as usize];
        let (at, length) = (random(20_000) as usize, random(700) as usize);
        match random(20) {
            0 => {
                let size = Some(at as u64);
                let changes = SetAttributes {
                    size,
                    ..SetAttributes::default()
                };
                file.set_attributes(&caller(), &changes).unwrap();
                model.resize(at, 0);
            }
            1 => {
                let bytes = vec![step as u8; length];
                assert_eq!(
                    file.append(&mut &bytes[..]).unwrap(),
                    (model.len() as u64, length)
                );
                model.extend(bytes);
            }
            2..10 if length > 0 => {
                write_at(&**file, at as u64, &vec![step as u8; length]);
                model.resize(model.len().max(at + length), 0);
                model[at..at + length].fill(step as u8);
            }
            _ => {
                let mut out = vec![0; length];
                let count = file.read_at(at as u64, &mut &mut out[..]).unwrap();
                let end = model.len().min(at + length);
                let want = model.get(at..end).unwrap_or_default();
                assert!(out[..count] == *want, "step {step}: {at}+{length}");
            }
        }
    }
    assert!(read_all(&*files[2]).unwrap() == model);
    drop(files);
    // And when all have closed it.
    let file = open_file(&*all[3], "f").unwrap();
    assert!(read_all(&*file).unwrap() == model);
    let entry = all[3].lookup(&caller(), all[3].root(), b"f").unwrap();
    assert_eq!(entry.attributes.size, model.len() as u64);
    drop(file);
    let later = scratch.open(&[]);
    let entry = later.lookup(&caller(), later.root(), b"f").unwrap();
    assert_eq!(entry.attributes.size, model.len() as u64);
}

/// The paper's table II: four processes append 64, 256 and 1024 KB. In LDPLFS's way each finds the
/// end alone, and the file is as large as one of them wrote; with the lock of the host it is right.
#[test]
fn table_two_without_the_service() {
    for (option, times) in [("append=own", 1), ("append=lock", 4)] {
        for kilobytes in [64usize, 256, 1024] {
            let scratch = Scratch::new(1);
            let mount = scratch.prepared(&[option]);
            let all: Vec<_> = (0..4).map(|_| crate::tools::open(&mount)).collect();
            drop(create_file(&*all[0], "f"));
            let flags = OpenFlags::WRITE.with(OpenFlags::APPEND);
            let files: Vec<_> = all
                .iter()
                .map(|fs| open_for(&**fs, "f", flags).unwrap())
                .collect();
            // All have it open and have seen it empty when the first one writes.
            for file in &files {
                file.append(&mut &b""[..]).unwrap();
            }
            for _ in 0..kilobytes / 16 {
                for (writer, file) in files.iter().enumerate() {
                    file.append(&mut &vec![b'a' + writer as u8; 16 << 10][..])
                        .unwrap();
                }
            }
            drop(files);
            let fs = scratch.open(&[]);
            let entry = fs.lookup(&caller(), fs.root(), b"f").unwrap();
            assert_eq!(
                entry.attributes.size,
                (kilobytes << 10) as u64 * times,
                "{option}"
            );
        }
    }
}

/// Space that ends in the middle of a write: what was answered is there, and goes on.
#[test]
fn a_full_back_end_loses_nothing_that_was_answered() {
    let scratch = Scratch::new(1);
    let back = scratch.backends[0].to_str().unwrap();
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", back])
        .output();
    if !mount.is_ok_and(|out| out.status.success()) {
        return;
    }
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    let (mut model, mut full) = (Vec::new(), 0);
    for step in 0..40u8 {
        let bytes = vec![b'a' + step % 26; 50_000];
        match file.write_at(model.len() as u64, &mut &bytes[..]) {
            Ok(count) => model.extend_from_slice(&bytes[..count]),
            Err(error) => {
                assert_eq!(error.errno(), culvert::Errno::ENOSPC);
                full += 1;
            }
        }
    }
    assert!(full > 0 && model.len() > 500_000);
    drop(file);
    let right = open_file(&*fs, "f")
        .and_then(|file| read_all(&*file))
        .is_ok_and(|bytes| bytes == model);
    drop(fs);
    let _ = std::process::Command::new("umount").arg(back).status();
    assert!(right);
}

/// Writes that follow no pattern, by a process that reads too: none fails that was done, and those
/// in equal steps are few runs for who reads them together.
#[test]
fn a_full_index_fails_no_write() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&["index_memory=1"]);
    let file = create_file(&*fs, "f");
    read_all(&*file).unwrap();
    for at in 0..15_000u64 {
        write_at(&*file, at * 2, &[at as u8]);
        if at == 0 {
            read_all(&*file).unwrap();
        }
    }
    let all = read_all(&*file).unwrap();
    assert_eq!(all.len(), 29_999);
    assert!((0..15_000).all(|at| all[at * 2] == at as u8));
}

/// Bytes that this thread has read.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

/// Close costs the same however many records a process has written.
#[test]
fn a_writer_reads_no_records_at_its_close() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    for at in 0..10_000u64 {
        write_at(&*file, at, b"x");
    }
    let before = bytes_read();
    drop(file);
    let read = bytes_read() - before;
    assert!(
        read < 100_000,
        "{read} bytes of 480,000 that the records have"
    );
    let entry = fs.lookup(&caller(), fs.root(), b"f").unwrap();
    assert_eq!(entry.attributes.size, 10_000);
}

/// The files that appends lock, which whoever may write the file may open, and nobody else.
#[test]
fn locks_are_for_those_who_may_write() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    file.append(&mut &b"one"[..]).unwrap();
    let appends = scratch.backends[0].join("f/.culvert-appends");
    let mode = || std::fs::metadata(&appends).unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    for (permissions, want) in [(0o664, 0o660), (0o606, 0o606), (0o444, 0o600)] {
        let changes = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        file.set_attributes(&caller(), &changes).unwrap();
        assert_eq!(mode(), want, "{permissions:o}");
    }
    file.append(&mut &b"two"[..]).unwrap();
    assert_eq!(read_all(&*file).unwrap(), b"onetwo");
}

/// What another run has cut counts at the close of a writer that did not see it.
#[test]
fn truncation_by_another_run_counts_at_close() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    write_at(&*file, 0, &[1; 100]);
    let other = scratch.open(&[]);
    let changes = SetAttributes {
        size: Some(10),
        ..SetAttributes::default()
    };
    let cut = open_for(&*other, "f", OpenFlags::READ_WRITE).unwrap();
    cut.set_attributes(&caller(), &changes).unwrap();
    drop(cut);
    drop(file);
    let later = scratch.open(&[]);
    let entry = later.lookup(&caller(), later.root(), b"f").unwrap();
    assert_eq!(entry.attributes.size, 10);
}

/// stat(2) and read(2) behind the end see at once what another run has written, and stat(2) what it
/// has cut.
#[test]
fn another_run_sees_sizes_at_once() {
    let scratch = Scratch::new(2);
    let (one, two) = (scratch.open(&[]), scratch.open(&[]));
    let file = create_file(&*one, "f");
    let other = open_file(&*two, "f").unwrap();
    let size = || other.attributes(&caller()).unwrap().size;
    let mut bytes = [0; 8];
    for at in 0..20u64 {
        assert_eq!(size(), at * 8);
        write_at(&*file, at * 8, &at.to_le_bytes());
        if at % 2 == 0 {
            assert_eq!(size(), at * 8 + 8);
        }
        let read = other.read_at(at * 8, &mut &mut bytes[..]).unwrap();
        assert_eq!((read, u64::from_le_bytes(bytes)), (8, at));
        // By its name too, while it is open and not.
        let third = scratch.open(&[]);
        for fs in [&two, &third] {
            let entry = fs.lookup(&caller(), fs.root(), b"f").unwrap();
            assert_eq!(entry.attributes.size, at * 8 + 8);
        }
    }
    truncate(&*file, 3).unwrap();
    assert_eq!(size(), 3);
    // A writer that is killed closes nothing.
    file.append(&mut &b"more"[..]).unwrap();
    std::mem::forget((one, file));
    assert_eq!(size(), 7);
    let later = scratch.open(&[]);
    let entry = later.lookup(&caller(), later.root(), b"f").unwrap();
    assert_eq!(entry.attributes.size, 7);
}

/// A file that another process renames, to other back ends too, is written where it is.
#[test]
fn what_another_process_renames_is_written_where_it_is() {
    let scratch = Scratch::new(3);
    let mount = scratch.prepared(&[]);
    let hosts = ["one", "two", "three", "four"].map(|host| {
        let mut mount = mount.clone();
        mount.options.push(("host".into(), host.into()));
        crate::tools::open(&mount)
    });
    drop(create_file(&*hosts[0], "f"));
    let files = hosts
        .each_ref()
        .map(|fs| open_for(&**fs, "f", OpenFlags::READ_WRITE).unwrap());
    let (mut name, mut want) = (String::from("f"), Vec::new());
    for step in 0..24 {
        let next = format!("name {step}");
        let (fs, none) = (&hosts[0], culvert::RenameFlags(0));
        let (from, to) = ((fs.root(), name.as_bytes()), (fs.root(), next.as_bytes()));
        fs.rename(&caller(), from, to, none).unwrap();
        name = next;
        // One after the other begins to write when it has been moved.
        for file in &files[1..=(1 + step / 8)] {
            let line = format!("step {step}\n");
            file.append(&mut line.as_bytes()).unwrap();
            want.extend(line.as_bytes());
        }
        assert!(read_all(&*files[3]).unwrap() == want, "{step}");
        let later = scratch.open(&[]);
        let file = open_file(&*later, &name).unwrap();
        assert!(read_all(&*file).unwrap() == want, "{step}, by another run");
    }
}

/// The record of a writer that was killed stays, whoever has its number now.
#[test]
fn the_record_of_a_killed_writer_stays() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&["host=vm"]);
    drop(create_file(&*fs, "f"));
    let open = format!("f/meta/open.vm.{}", std::process::id());
    let open = scratch.backends[0].join(open);
    std::fs::write(&open, "").unwrap();
    let file = open_for(&*fs, "f", OpenFlags::WRITE).unwrap();
    write_at(&*file, 0, b"abc");
    drop(file);
    assert!(open.exists());
}

/// What a killed unlink left on shadow back ends is no part of the next file of that name.
#[test]
fn remains_on_shadows_are_no_part_of_a_new_file() {
    let scratch = Scratch::new(3);
    let fs = scratch.open(&["host=vm"]);
    for host in ["one", "two", "three", "four", "five"] {
        let option = format!("host={host}");
        let fs = scratch.open(&[&option]);
        let file = match open_for(&*fs, "f", OpenFlags::READ_WRITE) {
            Ok(file) => file,
            Err(_) => create_file(&*fs, "f"),
        };
        write_at(&*file, 0, b"old and longer");
    }
    let access = |back: &std::path::PathBuf| back.join("f/.plfsaccess113918400").exists();
    let canonical = scratch.backends.iter().find(|back| access(back)).unwrap();
    std::fs::remove_dir_all(canonical.join("f")).unwrap();
    drop(create_file(&*fs, "f"));
    for host in ["one", "two", "three", "four", "five"] {
        let option = format!("host={host}");
        let fs = scratch.open(&[&option]);
        let file = open_for(&*fs, "f", OpenFlags::READ_WRITE).unwrap();
        write_at(&*file, 0, b"new");
        assert_eq!(read_all(&*file).unwrap(), b"new", "{host}");
    }
    // And it goes with the file.
    fs.unlink(&caller(), fs.root(), b"f").unwrap();
    assert!(scratch.backends.iter().all(|back| !back.join("f").exists()));
}

/// Bytes that are taken, or that go straight, so many at a time.
struct Parts<'a> {
    bytes: &'a [u8],
    straight: usize,
}

impl Source for Parts<'_> {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        self.bytes.take(into)
    }

    fn write_to(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        let bytes = &self.bytes[..self.straight.min(count).min(self.bytes.len())];
        let written = culvert_sys::fs::pwrite(BorrowedFd::number(fd), bytes, offset).unwrap();
        self.bytes = &self.bytes[written..];
        written
    }
}

/// The same to read.
struct Into {
    bytes: Vec<u8>,
    wanted: usize,
    straight: usize,
}

impl Sink for Into {
    fn remaining(&self) -> usize {
        self.wanted - self.bytes.len()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len().min(self.remaining());
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        self.put(&vec![0; count])
    }

    fn read_from(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        let mut piece = vec![0; self.straight.min(count).min(self.remaining())];
        let read = culvert_sys::fs::pread(BorrowedFd::number(fd), &mut piece, offset).unwrap();
        self.bytes.extend(&piece[..read]);
        read
    }
}

/// However the bytes come: a write is one record, and reads back.
#[test]
fn bytes_go_straight_or_by_copies() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&["host=vm"]);
    let file = create_file(&*fs, "f");
    let all: Vec<u8> = (0..300_000u32).map(|at| (at * 7 / 3) as u8).collect();
    let mut want = Vec::new();
    for straight in [0, 1, 100, 5000, 70_000, 1 << 20] {
        let mut from = Parts {
            bytes: &all,
            straight,
        };
        assert_eq!(
            file.append(&mut from).unwrap(),
            (want.len() as u64, all.len())
        );
        want.extend(&all);
        let at = want.len() as u64 + 1000;
        let mut from = Parts {
            bytes: &all[..100_000],
            straight,
        };
        assert_eq!(file.write_at(at, &mut from).unwrap(), 100_000);
        want.resize(at as usize, 0);
        want.extend(&all[..100_000]);
        let mut into = Into {
            bytes: Vec::new(),
            wanted: want.len() + 10,
            straight,
        };
        assert_eq!(file.read_at(0, &mut into).unwrap(), want.len());
        assert!(into.bytes == want, "{straight}");
    }
    let hostdirs = std::fs::read_dir(scratch.backends[0].join("f")).unwrap();
    let hostdirs = hostdirs.map(|one| one.unwrap().path());
    let droppings = hostdirs.filter(|path| path.is_dir() && !path.ends_with("meta"));
    let files = droppings.flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let indexes = files.map(|file| file.unwrap());
    let mut indexes = indexes.filter(|file| file.file_name().to_str().unwrap().contains(".index."));
    assert_eq!(indexes.next().unwrap().metadata().unwrap().len(), 12 * 48);
}

/// Who has opened a file goes on writing after a chmod(2) that takes that from others, as natively.
#[test]
fn who_may_not_set_times_any_more_still_writes() {
    if culvert_sys::process::geteuid() != 0 {
        return;
    }
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    write_at(&*file, 0, b"before");
    let access = scratch.backends[0].join("f/.plfsaccess113918400");
    std::fs::set_permissions(&access, std::fs::Permissions::from_mode(0o400)).unwrap();
    // Times are set at most every four milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(10));
    // Of this thread alone: its privileges go with it.
    culvert_sys::process::setfsuid(65534);
    let written = file.write_at(6, &mut &b" and after"[..]);
    culvert_sys::process::setfsuid(0);
    assert_eq!(written.unwrap(), 10);
    assert_eq!(read_all(&*file).unwrap(), b"before and after");
}

/// What its owner may neither read nor write is not taken for unused when he removes it, and has its
/// mode afterwards.
#[test]
fn what_nobody_may_open_stays_while_it_is_open() {
    if culvert_sys::process::geteuid() != 0 {
        return;
    }
    let scratch = Scratch::new(1);
    let mount = scratch.prepared(&[]);
    let (one, other) = (crate::tools::open(&mount), crate::tools::open(&mount));
    let file = create_file(&*one, "f");
    write_at(&*file, 0, b"kept");
    let access = scratch.backends[0].join("f/.plfsaccess113918400");
    std::fs::set_permissions(&access, std::fs::Permissions::from_mode(0o111)).unwrap();
    let back = scratch.backends[0].display();
    let given = std::process::Command::new("chown")
        .args(["-R", "65534", &back.to_string()])
        .status();
    assert!(given.unwrap().success());
    let as_owner = |run: &mut dyn FnMut()| {
        culvert_sys::process::setfsuid(65534);
        run();
        culvert_sys::process::setfsuid(0);
    };
    let mut removed = None;
    as_owner(&mut || removed = Some(other.unlink(&caller(), other.root(), b"f")));
    removed.unwrap().unwrap();
    assert_eq!(read_all(&*file).unwrap(), b"kept");
    assert_eq!(file.attributes(&caller()).unwrap().permissions, 0o111);
    let mut file = Some(file);
    as_owner(&mut || file = None);
    let aside = scratch.backends[0].join(".culvert-removed");
    assert_eq!(std::fs::read_dir(aside).unwrap().count(), 0);
}

/// Times that another process sets after a write are not those of the write, which has waited.
#[test]
fn times_that_others_set_stay_at_close() {
    let scratch = Scratch::new(1);
    let mut mount = scratch.prepared(&[]);
    mount.options.push(("syncs".into(), Vec::new()));
    let fs = crate::tools::open(&mount);
    let file = create_file(&*fs, "f");
    let access = scratch.backends[0].join("f/.plfsaccess113918400");
    let on_disk = || std::fs::metadata(&access).unwrap().mtime();
    let set = |seconds| {
        // The kernel's clock for times of files has ticks.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let raw = std::fs::File::options().write(true).open(&access).unwrap();
        raw.set_modified(time).unwrap();
    };
    // The first one is set at once, the second one waits.
    for text in [b"a", b"b"] {
        write_at(&*file, 0, text);
    }
    set(1_000_000_000);
    file.sync(false).unwrap();
    assert_eq!(on_disk(), 1_000_000_000, "fsync");
    write_at(&*file, 0, b"c");
    file.flush().unwrap();
    assert!(on_disk() > 1_700_000_000, "a later write");
    write_at(&*file, 0, b"d");
    set(1_100_000_000);
    drop(file);
    assert_eq!(on_disk(), 1_100_000_000, "close");
}

/// Where times are messages to a server, they wait for who asks for them, and for sync and close.
#[test]
fn times_that_waited_are_there_when_it_matters() {
    let scratch = Scratch::new(1);
    let mut mount = scratch.prepared(&[]);
    mount.options.push(("syncs".into(), Vec::new()));
    let fs = crate::tools::open(&mount);
    let file = create_file(&*fs, "f");
    let access = scratch.backends[0].join("f/.plfsaccess113918400");
    let attributes = || file.attributes(&caller()).unwrap().mtime.seconds;
    let looked_up = || {
        let entry = fs.lookup(&caller(), fs.root(), b"f").unwrap();
        entry.attributes.mtime.seconds
    };
    let on_disk = || std::fs::metadata(&access).unwrap().mtime();
    let ways: [(&str, &dyn Fn() -> i64); 4] = [
        ("fstat", &attributes),
        ("stat", &looked_up),
        ("fsync", &|| {
            file.sync(false).unwrap();
            on_disk()
        }),
        ("close", &|| {
            file.flush().unwrap();
            on_disk()
        }),
    ];
    for (way, when) in ways {
        write_at(&*file, 0, b"a");
        // What the next write would have set, was it not that soon.
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let raw = std::fs::File::options().write(true).open(&access).unwrap();
        raw.set_modified(long_ago).unwrap();
        write_at(&*file, 0, b"b");
        assert!(when() > 1_700_000_000, "{way}");
    }
}
