//! Containers that no writer has left: an error with its cause, never a wrong byte, never much
//! memory. `fuzz/fuzz_targets/plfs.rs` looks for more.

use crate::tools::{Scratch, open_file, read_all};
use culvert::{Errno, OpenFlags, testing::caller};
use culvert_drivers::plfs::layout::Record;
use std::{
    ffi::CString,
    path::{Path, PathBuf},
};

const NAME: &str = "1700000000.000001.host.7";

/// A container with this index and this data dropping.
fn container(scratch: &Scratch, index: &[u8], data: &[u8]) -> PathBuf {
    let dir = scratch.backends[0].join("f");
    std::fs::create_dir_all(dir.join("hostdir.1")).unwrap();
    std::fs::write(dir.join(".plfsaccess113918400"), "").unwrap();
    std::fs::write(dir.join(format!("hostdir.1/dropping.index.{NAME}")), index).unwrap();
    std::fs::write(dir.join(format!("hostdir.1/dropping.data.{NAME}")), data).unwrap();
    dir
}

fn record(logical: u64, physical: u64, length: u64, time: f64) -> [u8; 48] {
    let (begin, end) = (time, time);
    Record {
        logical,
        physical,
        length,
        begin,
        end,
        id: 7,
    }
    .encode()
}

/// What reading the whole file says.
fn refused(scratch: &Scratch, want: &str) {
    let fs = scratch.open(&[]);
    let error = match open_file(&*fs, "f").and_then(|file| read_all(&*file)) {
        Ok(bytes) => panic!("{want}: {} bytes were read", bytes.len()),
        Err(error) => error,
    };
    assert_eq!(error.errno(), Errno::EIO, "{error}");
    assert!(error.to_string().contains(want), "{error}");
}

#[test]
fn records_of_no_write_are_refused() {
    for (index, want) in [
        (record(u64::MAX, 0, 1, 1.0), "record 0 is of no write"),
        (record(0, 0, u64::MAX, 1.0), "record 0 is of no write"),
        (
            record(0, i64::MAX as u64, 9, 1.0),
            "record 0 is of no write",
        ),
        (record(0, 0, 9, f64::NAN), "record 0 is of no write"),
        (record(0, 5, 9, 1.0), "ends before 14"),
    ] {
        let scratch = Scratch::new(1);
        container(&scratch, &index, b"abc");
        refused(&scratch, want);
    }
}

#[test]
fn a_missing_data_dropping_is_named() {
    let scratch = Scratch::new(1);
    let dir = container(&scratch, &record(0, 0, 3, 1.0), b"abc");
    std::fs::remove_file(dir.join(format!("hostdir.1/dropping.data.{NAME}"))).unwrap();
    refused(&scratch, "the data dropping is missing");
}

/// A torn record at the end is of a write that nobody was told of.
#[test]
fn a_torn_record_is_none() {
    let scratch = Scratch::new(1);
    let index = [&record(0, 0, 3, 1.0)[..], &record(3, 3, 3, 2.0)[..20]].concat();
    container(&scratch, &index, b"abcdef");
    let fs = scratch.open(&[]);
    let file = open_file(&*fs, "f").unwrap();
    assert_eq!(read_all(&*file).unwrap(), b"abc");
}

#[test]
fn metalinks_that_lead_elsewhere_are_refused() {
    for (text, want) in [
        ("1/etc", "none of the mount's back ends"),
        ("x", "no metalink"),
        ("99999@", "no metalink"),
        ("4000@", "longer than its path"),
        ("0@", "a metalink to what is no directory"),
    ] {
        let scratch = Scratch::new(1);
        let dir = container(&scratch, &[], b"");
        let own = scratch.backends[0].to_str().unwrap();
        let text = match text {
            // To itself: a cycle.
            "0@" => format!("{}{own}", own.len()),
            text => text.replace('@', own),
        };
        std::os::unix::fs::symlink(text, dir.join("hostdir.2")).unwrap();
        refused(&scratch, want);
    }
}

/// Millions of records that claim each other's bytes stay within the bound.
#[test]
fn an_index_without_pattern_is_bounded() {
    let scratch = Scratch::new(1);
    let records = (0..200_000u64).map(|at| record(at * at % 1_000_003 * 10, at, 1, at as f64));
    let index: Vec<u8> = records.flatten().collect();
    container(&scratch, &index, &[7; 200_000]);
    let fs = scratch.open(&["index_memory=1"]);
    let error = open_file(&*fs, "f")
        .and_then(|file| read_all(&*file))
        .unwrap_err();
    assert_eq!(error.errno(), Errno::ENOMEM);
    assert!(error.to_string().contains("raise index_memory"), "{error}");
}

/// Each byte of a small container changed, one at a time: no panic.
#[test]
fn damage_anywhere_is_survived() {
    let scratch = Scratch::new(1);
    let index = [record(0, 0, 3, 1.0), record(1, 3, 3, 2.0)].concat();
    for at in 0..index.len() {
        for bit in [0, 7] {
            let mut damaged = index.clone();
            damaged[at] ^= 1 << bit;
            container(&scratch, &damaged, b"abcdef");
            let fs = scratch.open(&[]);
            if let Ok(file) = open_file(&*fs, "f") {
                let _ = file.read_at(0, &mut &mut [0u8; 64][..]);
            }
        }
    }
    assert!(Path::new(&scratch.root).exists());
}

/// Nobody waits for the other end of a FIFO, whatever holds the tree meanwhile.
#[test]
fn what_is_no_file_by_now_is_not_opened() {
    let scratch = Scratch::new(1);
    let path = scratch.backends[0].join("f");
    std::fs::write(&path, "").unwrap();
    let fs = scratch.open(&[]);
    let node = fs.lookup(&caller(), fs.root(), b"f").unwrap();
    let node = node.attributes.node;
    std::fs::remove_file(&path).unwrap();
    let fifo = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    culvert_sys::fs::mknod(&fifo, 0o010_600, 0).unwrap();
    for flags in [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE] {
        let failed = fs.open(&caller(), node, flags).map(drop);
        assert_eq!(failed.unwrap_err().errno(), Errno::ESTALE);
    }
}
