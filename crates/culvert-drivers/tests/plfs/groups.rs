//! Files of several users.

use crate::tools::{Scratch, create_file, open, open_file, open_for, read_all, truncate};
use culvert::{Errno, OpenFlags, SetAttributes, testing::caller};
use rustix::process::{Gid, Uid};
use std::fs::{File, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread;

const GROUP: u32 = 64_000;
const LOCKS: [&str; 2] = [".culvert-appends", ".culvert-holder"];

/// What user `uid`, who is in [`GROUP`] or not, does: by a thread that is that user.
pub fn by<T: Send>(uid: u32, in_group: bool, work: impl FnOnce() -> T + Send) -> T {
    let group = Gid::from_raw(GROUP);
    let groups = if in_group { &[group][..] } else { &[] };
    let user = || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
        rustix::thread::set_thread_groups(groups).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        work()
    };
    thread::scope(|scope| scope.spawn(user).join().unwrap())
}

/// Only root can be several users.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A back end that everybody may write, with a file that the group may write.
fn shared() -> Scratch {
    let scratch = Scratch::new(1);
    set_permissions(&scratch.backends[0], PermissionsExt::from_mode(0o777)).unwrap();
    let mount = scratch.prepared(&[]);
    by(64_001, true, || {
        let fs = open(&mount);
        let file = create_file(&*fs, "f");
        let changes = SetAttributes {
            permissions: Some(0o664),
            gid: Some(GROUP),
            ..SetAttributes::default()
        };
        file.set_attributes(&caller(), &changes).unwrap();
    });
    scratch
}

/// Everybody who may write appends and cuts, and who may read alone cannot lock.
fn all_append(scratch: &Scratch) {
    let mount = scratch.prepared(&[]);
    let mut want = Vec::new();
    for (step, uid) in [64_002, 64_001, 64_003, 64_002, 0].into_iter().enumerate() {
        by(uid, true, || {
            let fs = open(&mount);
            let file = open_for(&*fs, "f", OpenFlags::READ_WRITE).unwrap();
            let line = format!("step {step}\n");
            file.append(&mut line.as_bytes()).unwrap();
            want.extend(line.as_bytes());
            want.pop();
            truncate(&*file, want.len() as u64).unwrap();
        });
    }
    by(64_009, false, || {
        let fs = open(&mount);
        let file = open_file(&*fs, "f").unwrap();
        assert_eq!(read_all(&*file).unwrap(), want);
        let refused = open_for(&*fs, "f", OpenFlags::WRITE).err().unwrap();
        assert_eq!(refused.errno(), Errno::EACCES);
        for name in LOCKS {
            let path = scratch.backends[0].join("f").join(name);
            for options in [
                File::options().read(true),
                File::options().write(true),
                File::options().append(true),
            ] {
                let opened = options.open(&path);
                assert!(opened.is_err(), "{name}");
            }
        }
    });
}

/// Owner, group and mode of both.
fn locks(scratch: &Scratch) -> [(u32, u32, u32); 2] {
    LOCKS.map(|name| lock(scratch, name))
}

fn lock(scratch: &Scratch, name: &str) -> (u32, u32, u32) {
    let found = std::fs::metadata(scratch.backends[0].join("f").join(name)).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o777)
}

#[test]
fn a_group_appends_to_a_file_and_readers_cannot_stop_it() {
    if !is_root() {
        return;
    }
    let scratch = shared();
    assert_eq!(locks(&scratch), [(64_001, GROUP, 0o660); 2]);
    all_append(&scratch);
}

/// PLFS makes no such files: the first who appends does.
#[test]
fn it_does_where_another_user_was_the_first() {
    if !is_root() {
        return;
    }
    for (first, owner) in [(64_002, 64_002), (0, 64_001)] {
        let scratch = shared();
        for name in LOCKS {
            std::fs::remove_file(scratch.backends[0].join("f").join(name)).unwrap();
        }
        let mount = scratch.prepared(&[]);
        by(first, true, || {
            let fs = open(&mount);
            let file = open_for(&*fs, "f", OpenFlags::WRITE).unwrap();
            file.append(&mut &b"first"[..]).unwrap();
            truncate(&*file, 0).unwrap();
        });
        assert_eq!(lock(&scratch, LOCKS[0]), (owner, GROUP, 0o660));
        all_append(&scratch);
    }
}

/// Who may not write the file any more cannot lock it any more, and the other way round.
#[test]
fn locks_follow_the_mode_of_the_file() {
    if !is_root() {
        return;
    }
    let scratch = shared();
    let mount = scratch.prepared(&[]);
    for (permissions, want) in [
        (0o644, 0o600),
        (0o666, 0o666),
        (0o640, 0o600),
        (0o664, 0o660),
    ] {
        by(64_001, true, || {
            let fs = open(&mount);
            let file = open_file(&*fs, "f").unwrap();
            let changes = SetAttributes {
                permissions: Some(permissions),
                ..SetAttributes::default()
            };
            file.set_attributes(&caller(), &changes).unwrap();
        });
        assert_eq!(locks(&scratch), [(64_001, GROUP, want); 2]);
        if permissions == 0o666 {
            by(64_008, false, || {
                let fs = open(&mount);
                let file = open_for(&*fs, "f", OpenFlags::WRITE).unwrap();
                file.append(&mut &b"stranger"[..]).unwrap();
                truncate(&*file, 0).unwrap();
            });
        }
    }
    all_append(&scratch);
}
