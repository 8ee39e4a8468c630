use super::*;
use culvert::Errno;
use culvert_sys::{AsFd, OwnedFd, fd::memfd_create, flags::OFlags, fs};
use std::{ffi::CString, thread};

const END: u64 = i64::MAX as u64;

/// A file, opened for both and for reading alone.
fn file() -> (OwnedFd, OwnedFd) {
    let both = memfd_create(c"file", 0).unwrap();
    let path = CString::new(format!("/proc/self/fd/{}", both.raw())).unwrap();
    let reads = fs::open(&path, OFlags::CLOEXEC, 0).unwrap();
    (both, reads)
}

/// What `owner` asks for by open file `fh`.
fn asked(owner: u64, fh: u64, kind: LockKind, range: (u64, u64)) -> Asked {
    let holder = Holder {
        node: Node(1),
        owner,
        kind: LockFamily::Record,
    };
    let (start, end) = range;
    let lock = Lock {
        kind,
        start,
        end,
        pid: 100 + owner as u32,
    };
    Asked { holder, fh, lock }
}

use LockKind::{Exclusive, Shared, Unlock};

#[test]
fn a_process_loses_all_at_its_first_close_and_a_description_at_its_end() {
    let (locks, (file, _)) = (Locks::default(), file());
    let set = |asked: Asked| locks.set(&asked, file.as_fd()).unwrap();
    assert!(set(asked(1, 1, Exclusive, (0, 9))) && set(asked(2, 2, Exclusive, (10, 19))));
    assert!(!set(asked(3, 3, Shared, (9, 9))) && !set(asked(3, 3, Shared, (10, 10))));
    let found = locks.conflict(&asked(3, 3, Shared, (5, END)), file.as_fd());
    let found = found.unwrap().unwrap();
    assert_eq!((found.start, found.end, found.pid), (0, 9, 101));
    // Somebody else's file, somebody else's close.
    locks.closed(Node(2), 1);
    locks.closed(Node(1), 3);
    assert!(!set(asked(4, 3, Shared, (0, 0))));
    locks.closed(Node(1), 1);
    locks.released(2);
    assert!(set(asked(4, 3, Exclusive, (0, END))));
}

#[test]
fn flock_of_a_file_that_is_open_for_reading_stays_where_it_is() {
    let (locks, (_file, reads)) = (Locks::default(), file());
    let mut first = asked(1, 1, Exclusive, (0, END));
    first.holder.kind = LockFamily::Flock;
    let mut second = asked(2, 2, Exclusive, (0, END));
    second.holder.kind = LockFamily::Flock;
    assert!(locks.set(&first, reads.as_fd()).unwrap());
    let description = || lock(&locks.holders)[&first.holder].description.clone();
    let before = description();
    // Another one would have the lock anew, and leave it to others in between.
    assert!(locks.set(&first, reads.as_fd()).unwrap());
    assert!(Arc::ptr_eq(&before, &description()));
    assert!(!locks.set(&second, reads.as_fd()).unwrap());
}

#[test]
fn who_read_and_then_writes_keeps_what_he_has() {
    let (locks, (file, reads)) = (Locks::default(), file());
    assert!(
        locks
            .set(&asked(1, 1, Shared, (0, 4)), reads.as_fd())
            .unwrap()
    );
    assert!(
        locks
            .set(&asked(1, 1, Shared, (10, END)), reads.as_fd())
            .unwrap()
    );
    assert!(
        locks
            .set(&asked(1, 2, Exclusive, (2, 2)), file.as_fd())
            .unwrap()
    );
    let conflict = |at| {
        let found = locks.conflict(&asked(2, 3, Exclusive, (at, at)), file.as_fd());
        found
            .unwrap()
            .map(|found| (found.kind, found.start, found.end))
    };
    assert_eq!(conflict(0), Some((Shared, 0, 1)));
    assert_eq!(conflict(2), Some((Exclusive, 2, 2)));
    assert_eq!(conflict(5), None);
    assert_eq!(conflict(1000), Some((Shared, 10, END)));
}

#[test]
fn waits_end_with_the_lock_or_where_they_would_be_for_ever() {
    let (locks, (file, _)) = (Locks::default(), file());
    let never = || false;
    let set = |asked: Asked| locks.set(&asked, file.as_fd()).unwrap();
    let wait = |asked: Asked| locks.wait(&asked, file.as_fd(), &never);
    assert!(set(asked(1, 1, Exclusive, (0, 0))) && set(asked(2, 2, Exclusive, (1, 1))));
    thread::scope(|scope| {
        let first = scope.spawn(|| wait(asked(1, 1, Exclusive, (1, 1))));
        while lock(&locks.waiting.0).is_empty() {
            thread::yield_now();
        }
        let refused = wait(asked(2, 2, Shared, (0, 0))).unwrap_err();
        assert_eq!(refused.errno(), Errno::EDEADLK);
        // One who holds nothing may wait.
        let third = scope.spawn(|| wait(asked(3, 3, Shared, (0, 1))));
        assert!(set(asked(2, 2, Unlock, (0, END))));
        first.join().unwrap().unwrap();
        locks.closed(Node(1), 1);
        third.join().unwrap().unwrap();
    });
    assert!(lock(&locks.waiting.0).is_empty());
    assert!(!set(asked(2, 2, Exclusive, (0, 0))));
    locks.released(3);
    assert!(set(asked(2, 2, Exclusive, (0, 0))));
}
