//! Options, the cache of indexes, and archives that change.

use crate::tools::{CALLER, Scratch, mount_of, node, open, paths, prepare, read, sh};
use culvert::{Caller, Errno, OpenFlags, Opened, Result, Shared, Sink};
use culvert_drivers::{Environment, Keeper};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir -p d/e; seq 1 20000 > d/n; echo e > d/e/f; ln -s n d/l; chmod 777 d/n; tar \
        --owner=7 --group=8 -cf t.tar d",
    );
    scratch
}

fn indexes(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.path("cache")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_index_is_made_once_and_found_after_a_move() {
    let scratch = scratch();
    assert!(
        prepare(&scratch.path("t.tar"), &[])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    assert!(
        !prepare(&scratch.path("t.tar"), &[])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    sh(&scratch.0, "mv t.tar moved; cp -p moved copy");
    assert!(
        !prepare(&scratch.path("moved"), &[])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    assert!(
        !prepare(&scratch.path("copy"), &[])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    assert_eq!(indexes(&scratch).len(), 1);
    sh(&scratch.0, "touch copy");
    assert!(
        prepare(&scratch.path("copy"), &[])
            .unwrap()
            .index
            .unwrap()
            .built
    );
}

#[test]
fn a_bad_index_is_made_anew() {
    let scratch = scratch();
    let archive = scratch.path("t.tar");
    prepare(&archive, &[]).unwrap();
    let path = indexes(&scratch).remove(0);
    let good = fs::read(&path).unwrap();
    for at in [0, 8, 100, 300, good.len() / 2, good.len() - 3] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&path, &bad).unwrap();
        let (fs, prepared) = open(&archive, &[]).unwrap();
        assert!(prepared.index.as_ref().unwrap().built, "byte {at}");
        assert_eq!(paths(&*fs), ["d/", "d/e/", "d/e/f", "d/l", "d/n"]);
    }
    for length in [0, 100, 256, good.len() - 8] {
        fs::write(&path, &good[..length]).unwrap();
        assert!(
            prepare(&archive, &[]).unwrap().index.unwrap().built,
            "{length} bytes"
        );
    }
    // Others may write to it: not ours any more.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(prepare(&archive, &[]).unwrap().index.unwrap().built);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert_eq!(indexes(&scratch).len(), 1, "nothing is left behind");
}

#[test]
fn a_process_does_without_the_index_file() {
    let scratch = scratch();
    let prepared = prepare(&scratch.path("t.tar"), &[]).unwrap();
    fs::remove_file(&indexes(&scratch)[0]).unwrap();
    let fs = culvert_drivers::open(&prepared.mount, &Environment::default()).unwrap();
    assert_eq!(paths(&*fs).len(), 5);
}

#[test]
fn an_archive_that_changed_is_refused() {
    let scratch = scratch();
    let prepared = prepare(&scratch.path("t.tar"), &[]).unwrap();
    let mut file = OpenOptions::new()
        .append(true)
        .open(scratch.path("t.tar"))
        .unwrap();
    file.write_all(b"x").unwrap();
    let Err(error) = culvert_drivers::open(&prepared.mount, &Environment::default()) else {
        panic!("opened");
    };
    assert_eq!(error.errno(), Errno::EIO);
    assert_eq!(
        error.cause(),
        Some("the archive has changed since the command was started")
    );
}

/// A sink that copies as the boundary does: a fault is an errno.
struct Checked(File);

impl Sink for Checked {
    fn remaining(&self) -> usize {
        4096
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        self.put_shared(bytes.into())
    }
    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        use culvert_sys::{nr, syscall};
        let arguments = [
            self.0.as_raw_fd() as usize,
            bytes.start() as usize,
            bytes.len().min(4096),
        ];
        // SAFETY: the kernel only reads, and says EFAULT where it cannot.
        unsafe { syscall::call(nr::WRITE, arguments) }.map_err(|_| Errno::EIO.into())
    }
    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        Ok(count.min(4096))
    }
}

#[test]
fn an_archive_that_shrinks_under_the_mount_is_an_error() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "seq 1 100000 > n; tar -cf t.tar n; gzip -k t.tar; zip -q t.zip n",
    );
    // In a program, where the library catches faults and the archive is mapped.
    let in_program = Environment {
        keeper: Keeper {
            adopt: Some(|_| None),
            ..Keeper::default()
        },
        ..Environment::default()
    };
    for name in ["t.tar", "t.tar.gz", "t.zip"] {
        let prepared = prepare(&scratch.path(name), &[]).unwrap();
        let file_in = |environment| {
            let fs = culvert_drivers::open(&prepared.mount, environment).unwrap();
            let n = node(&*fs, b"n").unwrap();
            match fs.open(&CALLER, n, OpenFlags(0)).unwrap() {
                Opened::Driven(file) => file,
                Opened::Backed(_) => panic!("{name} is backed"),
            }
        };
        let (file, served) = (file_in(&in_program), file_in(&Environment::default()));
        File::options()
            .write(true)
            .open(scratch.path(name))
            .unwrap()
            .set_len(1000)
            .unwrap();
        let mut sink = Checked(File::create(scratch.path("sink")).unwrap());
        let error = file.read_at(400_000, &mut sink).unwrap_err();
        assert_eq!(error.errno(), Errno::EIO, "{name}");
        // A server's reply: a touch of what is gone would be its end.
        let mut reply = [0; 4096];
        let error = served.read_at(400_000, &mut &mut reply[..]).unwrap_err();
        assert_eq!(error.errno(), Errno::EIO, "{name}, served");
    }
}

#[test]
fn where_the_index_is_kept() {
    let scratch = scratch();
    let archive = scratch.path("t.tar");
    let file = scratch.path("my.index");
    let file = file.to_str().unwrap();
    assert!(
        prepare(&archive, &[("index", file)])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    assert!(
        !prepare(&archive, &[("index", file)])
            .unwrap()
            .index
            .unwrap()
            .built
    );
    // A relative path is one from here, also for processes that are elsewhere.
    let relative = format!("{}{file}", "../".repeat(20).trim_end_matches('/'));
    let prepared = prepare(&archive, &[("index", &relative)]).unwrap();
    let found = prepared.index.unwrap();
    assert!(!found.built && found.path[0] == b'/');
    assert_eq!(prepared.mount.option("index"), Some(&found.path[..]));
    fs::create_dir(scratch.path("dir")).unwrap();
    prepare(
        &archive,
        &[("index", scratch.path("dir").to_str().unwrap())],
    )
    .unwrap();
    assert_eq!(fs::read_dir(scratch.path("dir")).unwrap().count(), 1);
    // A file that is no index is left alone.
    fs::write(scratch.path("letter"), "dear").unwrap();
    let error = prepare(
        &archive,
        &[("index", scratch.path("letter").to_str().unwrap())],
    )
    .unwrap_err();
    assert_eq!(error.errno(), Errno::EEXIST);
    assert_eq!(fs::read(scratch.path("letter")).unwrap(), b"dear");
    assert!(!scratch.path("cache").exists());
    // Only for the run.
    let run = scratch.path("run");
    let environment = Environment {
        run_directory: Some(run.as_os_str().as_bytes()),
        ..Environment::default()
    };
    let mount = mount_of(&archive, &[("index", "none")]);
    culvert_drivers::prepare(&mount, &environment, &mut |_| {}).unwrap();
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
    // The cache cannot be used: the run's directory, and a warning.
    fs::write(scratch.path("cache"), "a file").unwrap();
    let cache = scratch.path("cache");
    let environment = Environment {
        cache_directory: Some(cache.as_os_str().as_bytes()),
        ..environment
    };
    let prepared =
        culvert_drivers::prepare(&mount_of(&archive, &[]), &environment, &mut |_| {}).unwrap();
    assert_eq!(prepared.warnings.total, 1);
    assert!(
        prepared.warnings.first[0]
            .to_string()
            .starts_with("the index is not kept")
    );
}

#[test]
fn owners_and_umask() {
    let scratch = scratch();
    let archive = scratch.path("t.tar");
    let attributes = |options: &[(&str, &str)]| {
        let (fs, _) = open(&archive, options).unwrap();
        fs.attributes(&Caller::SYSTEM, node(&*fs, b"d/n").unwrap())
            .unwrap()
    };
    let archived = attributes(&[("uid", "archive"), ("gid", "archive")]);
    assert_eq!(
        (archived.uid, archived.gid, archived.permissions),
        (7, 8, 0o777)
    );
    let fixed = attributes(&[("uid", "12"), ("gid", "34"), ("umask", "027")]);
    assert_eq!((fixed.uid, fixed.gid, fixed.permissions), (12, 34, 0o750));
}

#[test]
fn a_subdirectory_as_the_root() {
    let scratch = scratch();
    let archive = scratch.path("t.tar");
    let (fs, _) = open(&archive, &[("subdir", "d")]).unwrap();
    assert_eq!(paths(&*fs), ["e/", "e/f", "l", "n"]);
    assert_eq!(fs.parent(fs.root()).unwrap(), fs.root());
    assert_eq!(fs.path_of(node(&*fs, b"e/f").unwrap()).unwrap(), b"e/f");
    for (path, errno) in [
        ("x", Errno::ENOENT),
        ("d/n", Errno::ENOTDIR),
        ("d/n/x", Errno::ENOENT),
        ("..", Errno::EINVAL),
    ] {
        let error = prepare(&archive, &[("subdir", path)]).unwrap_err();
        assert_eq!(error.errno(), errno, "{path}");
        assert!(error.cause().unwrap().contains("subdir"), "{error}");
    }
}

#[test]
fn bad_options_say_what_there_is() {
    let scratch = scratch();
    let table = [
        (
            ("indx", "x"),
            "driver archive has no option \"indx\"; did you mean index? There are: index, subdir, \
            uid, gid, umask, avfs, damaged, script, save, ro",
        ),
        (
            ("ow", ""),
            "driver archive has no option \"ow\"; there are: index, subdir, uid, gid, umask, \
            avfs, damaged, script, save, ro",
        ),
        (
            ("uid", "root"),
            "option uid=root: a number or archive is needed, not \"root\"",
        ),
        (
            ("umask", "999"),
            "option umask=999: an octal number up to 777 is needed",
        ),
        (("damaged", "yes"), "option damaged=yes: it takes no value"),
        (("index", ""), "option index=: a path or none is needed"),
    ];
    for (option, message) in table {
        let error = prepare(&scratch.path("t.tar"), &[option]).unwrap_err();
        assert_eq!(error.errno(), Errno::EINVAL);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn looking_up() {
    let scratch = scratch();
    let (fs, _) = open(&scratch.path("t.tar"), &[]).unwrap();
    let walk = |path: &[u8]| {
        fs.walk(&CALLER, fs.root(), path)
            .map_err(|error| error.errno())
    };
    assert_eq!(walk(b"d/x").unwrap_err(), Errno::ENOENT);
    assert_eq!(walk(b"d/n/x").unwrap_err(), Errno::ENOTDIR);
    assert_eq!(walk(&[b'x'; 256]).unwrap_err(), Errno::ENAMETOOLONG);
    let link = walk(b"d/l/more").unwrap();
    assert_eq!(link.consumed, 3);
    assert_eq!(
        fs.readlink(&Caller::SYSTEM, link.entry.unwrap().attributes.node)
            .unwrap(),
        b"n"
    );
    assert_eq!(link.parent, node(&*fs, b"d").unwrap());
    let f = node(&*fs, b"d/e/f").unwrap();
    assert_eq!(fs.path_of(f).unwrap(), b"d/e/f");
    assert_eq!(
        fs.readlink(&Caller::SYSTEM, f).unwrap_err().errno(),
        Errno::EINVAL
    );
    let d = node(&*fs, b"d").unwrap();
    assert_eq!(
        fs.open(&CALLER, d, OpenFlags(0)).err().unwrap().errno(),
        Errno::EISDIR
    );
    assert_eq!(
        fs.open(&CALLER, f, OpenFlags(2)).err().unwrap().errno(),
        Errno::EROFS
    );
    assert_eq!(read(&*fs, f, 1).unwrap(), b"e\n");
    let error = prepare(&scratch.path("t.tar"), &[("rw", "")]).unwrap_err();
    assert_eq!(error.errno(), Errno::EROFS);
    // A listing goes on where it stopped.
    let mut names = Vec::new();
    let mut from = 0;
    loop {
        let before = names.len();
        let mut taken = false;
        fs.read_directory(&Caller::SYSTEM, d, from, &mut |entry| {
            if taken {
                return false;
            }
            (taken, from) = (true, entry.next);
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
        if names.len() == before {
            break;
        }
    }
    names.sort();
    assert_eq!(names, [&b"e"[..], b"l", b"n"]);
    let statfs = fs.statfs().unwrap();
    assert!(statfs.read_only && statfs.files == 6 && statfs.name_max == 255);
    assert!(
        fs.attributes(&Caller::SYSTEM, culvert::Node(0)).is_err()
            && fs.attributes(&Caller::SYSTEM, culvert::Node(7)).is_err()
    );
}

#[test]
fn sources_are_told_apart_by_content() {
    let scratch = scratch();
    sh(&scratch.0, "cp t.tar t.zip; gzip -c t.tar > plain.tar");
    for name in ["t.tar", "t.zip", "plain.tar"] {
        let path = scratch.path(name);
        assert_eq!(
            culvert_drivers::detect(path.as_os_str().as_bytes())
                .unwrap()
                .name,
            "archive"
        );
    }
    let directory = culvert_drivers::detect(scratch.0.as_os_str().as_bytes()).unwrap();
    assert_eq!(directory.name, "passthrough");
}

#[test]
fn a_walk_needs_the_right_to_search() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "mkdir -p open/closed; echo x > open/closed/f; chmod 711 open; chmod 700 open/closed; tar \
        --owner=7 --group=8 -cf t.tar open",
    );
    let (fs, _) = open(
        &scratch.path("t.tar"),
        &[("uid", "archive"), ("gid", "archive")],
    )
    .unwrap();
    let walk = |uid, path: &[u8]| {
        let caller = Caller {
            uid,
            gid: uid,
            ..CALLER
        };
        let walked = fs.walk(&caller, fs.root(), path);
        walked
            .map(|walked| walked.consumed)
            .map_err(|error| error.errno())
    };
    for uid in [0, 7] {
        assert_eq!(walk(uid, b"open/closed/f"), Ok(13));
    }
    assert_eq!(walk(9, b"open/closed"), Ok(11));
    assert_eq!(walk(9, b"open/closed/f"), Err(Errno::EACCES));
    assert_eq!(walk(9, b"open/closed/none"), Err(Errno::EACCES));
}
