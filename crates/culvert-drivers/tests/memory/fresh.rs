//! Sources that let the kernel write: their bytes end up where they belong, however short the
//! kernel stops.

use crate::tools::Run;
use culvert::{File, OpenFlags, Opened, Result, Source, testing::caller};
use std::{
    mem::ManuallyDrop,
    os::{fd::FromRawFd, unix::fs::FileExt},
};

/// A source that writes at most `most` bytes at once, and counts them.
struct Direct<'a> {
    left: &'a [u8],
    most: usize,
    written: usize,
}

impl Source for Direct<'_> {
    fn remaining(&self) -> usize {
        self.left.len()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        self.left.take(into)
    }

    fn write_to(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        // SAFETY: the driver's descriptor is open during the call, and stays so.
        let file = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
        let count = count.min(self.most).min(self.left.len());
        file.write_all_at(&self.left[..count], offset).unwrap();
        self.left = &self.left[count..];
        self.written += count;
        count
    }
}

fn content(file: &dyn File, size: usize) -> Vec<u8> {
    let mut bytes = vec![0xaa; size + 1];
    let count = file.read_at(0, &mut &mut bytes[..]).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn what_the_kernel_writes_is_in_the_file() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("size", "64m")]);
    let bytes: Vec<u8> = (0..700_001u32)
        .map(|i| (i * 7 + i / 251) as u8 | 1)
        .collect();
    // Where to write, into a file of what size: at the start, behind the end, in the middle of a
    // block, across a hole into content.
    let places = [
        (0, 0),
        (0, 10_000),
        (8192, 8192),
        (1_000_000, 5000),
        (123, 0),
        (65_536, 900_000),
        (4_190_208, 4_190_208),
    ];
    for (number, (offset, size)) in places.into_iter().enumerate() {
        for most in [usize::MAX, 40_960, 12_345, 100, 0] {
            let name = format!("{number} {most}");
            let made = fs.create(
                &caller(),
                fs.root(),
                name.as_bytes(),
                OpenFlags::READ_WRITE,
                0o644,
            );
            let (_, Opened::Driven(file)) = made.unwrap() else {
                panic!("backed");
            };
            let mut expected = vec![0; size];
            if size > 0 {
                expected[size - 1] = 3;
                file.write_at(size as u64 - 1, &mut &[3u8][..]).unwrap();
            }
            let mut from = Direct {
                left: &bytes,
                most,
                written: 0,
            };
            let mut done = 0;
            while done < bytes.len() {
                let count = file.write_at((offset + done) as u64, &mut from).unwrap();
                assert!(count > 0);
                done += count;
            }
            let end = offset + bytes.len();
            expected.resize(expected.len().max(end), 0);
            expected[offset..end].copy_from_slice(&bytes);
            assert!(content(&*file, expected.len()) == expected, "{name}");
            assert_eq!(from.written > 0, most > 0, "{name}");
        }
    }
    drop(fs);
    run.assert_consistent(&mount);
}
