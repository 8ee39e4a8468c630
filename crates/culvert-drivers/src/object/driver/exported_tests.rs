//! A driver in Rust, exported as a library and made a driver again: each call and each answer gets
//! through both ways.

use super::*;
use crate::object::driver::tests::{KEYS, Two, mounted};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use culvert::FileKind;
use culvert::library::{Exported, MountRequest, Mounted};
use culvert::path::PathChange;
use culvert::sync::Mutex;
use culvert_sys::fd::pipe;
use std::{string::String, string::ToString, task::Wake};

/// Answers with what it was asked.
struct Echo {
    asked: Mutex<Vec<String>>,
    observer: Mutex<Option<Arc<dyn PathObserver>>>,
}

struct Names;

impl PathDirectory for Names {
    fn list(&self) -> Result<Vec<PathEntry>> {
        Ok(vec![PathEntry::new("kept", FileKind::Regular)])
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        match data_only {
            true => Err(Errno::ENOSPC.into()),
            false => Ok(()),
        }
    }
}

impl Echo {
    fn note(&self, what: String) {
        self.asked.lock().push(what);
    }
}

impl Mounted for Echo {
    const STATELESS: bool = true;

    fn mount(request: &MountRequest<'_>) -> Result<Self> {
        if request.source != b"/source" {
            return Err(Error::because(Errno::ENODEV, "not that"));
        }
        Ok(Self {
            asked: Mutex::new(Vec::new()),
            observer: Mutex::new(None),
        })
    }
}

impl PathFileSystem for Echo {
    type Handle = u32;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            polls: true,
            xattrs: false,
            checks_permissions: true,
            ..Capabilities::default()
        }
    }

    fn attributes(&self, _: &[u8]) -> Result<Attributes> {
        Ok(Attributes::new(FileKind::Regular, 0o640))
    }

    fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
        Err(Errno::ENOMEM.into())
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<u32> {
        let path = String::from_utf8_lossy(path);
        self.note(format!("open {path} {:o} {}", flags.0, caller.uid));
        Ok(7)
    }

    fn restore(&self, _: &Caller<'_>, _: &[u8], _: OpenFlags, state: &[u8]) -> Result<u32> {
        Ok(state.len() as u32)
    }

    fn save(&self, handle: &u32) -> Result<Vec<u8>> {
        Ok(vec![0; *handle as usize])
    }

    fn read(&self, _: &u32, offset: u64, out: &mut [u8]) -> Result<usize> {
        out.fill(offset as u8);
        Ok(out.len() - 1)
    }

    fn access(&self, caller: &Caller<'_>, _: &[u8], access: Access) -> Result<()> {
        match (caller.groups, access) {
            ([3, 4], _) => Ok(()),
            _ => Err(Errno::EACCES.into()),
        }
    }

    fn caching(&self, _: &u32) -> Caching {
        Caching::Keep
    }

    fn copy_range(&self, from: (&u32, u64), to: (&u32, u64), length: u64) -> Result<u64> {
        Ok(length - from.1 * 10 - to.1)
    }

    fn ioctl(&self, _: &u32, request: u32, argument: &mut [u8]) -> Result<usize> {
        argument.reverse();
        Ok(request as usize & 0xff)
    }

    fn poll(&self, _: &u32, waker: Option<&Waker>) -> Result<Readiness> {
        if let Some(waker) = waker {
            waker.wake_by_ref();
        }
        Ok(Readiness(4))
    }

    fn get_lock(&self, _: &u32, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let found = Lock {
            pid: owner.0 as u32,
            ..*lock
        };
        Ok(Some(found).filter(|_| lock.kind == LockKind::Exclusive))
    }

    fn set_lock(&self, _: &u32, _: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        match wait {
            Wait::Never => Err(Errno::EAGAIN.into()),
            Wait::UntilInterrupted(over) if over() => Err(Errno::EINTR.into()),
            Wait::UntilInterrupted(_) if (lock.start, lock.end) == (5, 9) => Ok(()),
            Wait::UntilInterrupted(_) => Err(Errno::EINVAL.into()),
        }
    }

    fn flock(&self, _: &u32, _: LockOwner, kind: LockKind, _: Wait<'_>) -> Result<()> {
        match kind {
            LockKind::Exclusive => Err(Errno::EAGAIN.into()),
            LockKind::Shared | LockKind::Unlock => Ok(()),
        }
    }

    fn open_directory(
        &self,
        _: &Caller<'_>,
        path: &[u8],
    ) -> Result<Option<Box<dyn PathDirectory>>> {
        Ok(match path {
            b"kept" => Some(Box::new(Names)),
            _ => None,
        })
    }

    fn sync_directory(&self, path: &[u8], data_only: bool) -> Result<()> {
        self.note(format!(
            "fsyncdir {} {data_only}",
            String::from_utf8_lossy(path)
        ));
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Err(Errno::EDQUOT.into())
    }

    fn seek(&self, _: &u32, offset: u64, whence: Whence) -> Option<Result<u64>> {
        (whence == Whence::Data).then_some(Ok(offset + 1))
    }

    fn observe(&self, observer: Arc<dyn PathObserver>) -> bool {
        *self.observer.lock() = Some(observer);
        true
    }

    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        assert_eq!(maps.sizes("two")?, [2, 1]);
        let (mut key, mut value) = ([0; 2], [9]);
        maps.next("two", None, &mut key)?;
        maps.get("two", &key, &mut value)?;
        assert_eq!((&key[..], value), (KEYS[0], [0]));
        let before = key;
        maps.next("two", Some(&before), &mut key)?;
        assert_eq!(key, KEYS[1]);
        let errno = |done: Result<()>| done.expect_err("refused").errno();
        assert_eq!(errno(maps.get("two", b"no", &mut value)), Errno::ENOENT);
        assert_eq!(errno(maps.remove("two", &key)), Errno::EPERM);
        assert_eq!(errno(maps.sizes("none").map(drop)), Errno::ENXIO);
        maps.put("two", &key, &value)
    }
}

/// Counts how often it is woken, and goes with the last who holds it.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn library() -> Library {
    Library::begin(Exported::<Echo>::DRIVER, &mounted()).expect("its source")
}

#[test]
fn a_driver_in_rust_is_the_same_through_the_table() {
    let library = library();
    let groups = [3, 4];
    let caller = Caller {
        uid: 12,
        groups: &groups,
        ..Caller::SYSTEM
    };
    let can = library.capabilities();
    assert!(can.polls && can.checks_permissions && !can.xattrs && !can.read_only);
    assert!(library.access(&caller, b"a", Access::READ).is_ok());
    assert!(library.access(&Caller::SYSTEM, b"a", Access::READ).is_err());
    let open = library.open(&caller, b"a/b", OpenFlags(2)).expect("open");
    let mut bytes = [0; 4];
    assert_eq!(library.read(&open, 9, &mut bytes).expect("bytes"), 3);
    assert_eq!(bytes, [9; 4]);
    assert_eq!(library.caching(&open), Caching::Keep);
    let copied = library.copy_range((&open, 3), (&open, 2), 100);
    assert_eq!(copied.expect("copied"), 68);
    let mut argument = [1, 2, 3];
    assert_eq!(
        library.ioctl(&open, 0x142, &mut argument).expect("known"),
        0x42
    );
    assert_eq!(argument, [3, 2, 1]);
    let found = |whence| {
        library
            .seek(&open, 4, whence)
            .map(|found| found.expect("there"))
    };
    assert_eq!([Whence::Data, Whence::Hole].map(found), [Some(5), None]);
    let saved = library.save(&open).expect("saved");
    assert_eq!(saved.len(), 7);
    assert!(library.restore(&caller, b"a", OpenFlags(0), &saved).is_ok());
    assert!(library.sync_directory(b"d", true).is_ok());
    let full = library.sync_all().expect_err("full");
    assert_eq!(full.errno(), Errno::EDQUOT);
    assert!(library.descriptor(&open).is_none() && library.tree().expect("none").is_none());
}

#[test]
fn who_waits_locks_lists_and_observes_gets_through_the_table() {
    let library = library();
    let caller = Caller {
        groups: &[3, 4],
        ..Caller::SYSTEM
    };
    let open = library.open(&caller, b"a", OpenFlags(0)).expect("open");
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let ready = library.poll(&open, Some(&Waker::from(Arc::clone(&count))));
    assert_eq!(ready.expect("ready"), Readiness(4));
    assert_eq!(count.0.load(SeqCst), 1);
    // Nobody has it any more: the driver has not kept it.
    assert_eq!(Arc::strong_count(&count), 1);
    assert!(library.poll(&open, None).is_ok());

    let lock = |kind, start, end| Lock {
        kind,
        start,
        end,
        pid: 0,
    };
    let asked = lock(LockKind::Exclusive, 5, 9);
    let found = library
        .get_lock(&open, LockOwner(77), &asked)
        .expect("asked");
    assert_eq!(found, Some(Lock { pid: 77, ..asked }));
    let free = lock(LockKind::Shared, 5, 9);
    assert_eq!(
        library
            .get_lock(&open, LockOwner(77), &free)
            .expect("asked"),
        None
    );
    for (wait, want) in [
        (Wait::Never, Some(Errno::EAGAIN)),
        (Wait::UntilInterrupted(&|| true), Some(Errno::EINTR)),
        (Wait::UntilInterrupted(&|| false), None),
    ] {
        let set = library.set_lock(&open, LockOwner(1), &asked, wait);
        assert_eq!(set.err().map(|error| error.errno()), want);
    }
    let flock = |kind| library.flock(&open, LockOwner(1), kind, Wait::Never);
    assert!(flock(LockKind::Shared).is_ok() && flock(LockKind::Unlock).is_ok());
    assert_eq!(
        flock(LockKind::Exclusive).expect_err("held").errno(),
        Errno::EAGAIN
    );

    let kept = library.open_directory(&caller, b"kept").expect("asked");
    let kept = kept.expect("it keeps something");
    assert_eq!(kept.list().expect("names")[0].name, b"kept");
    assert!(kept.sync(false).is_ok());
    assert_eq!(kept.sync(true).expect_err("full").errno(), Errno::ENOSPC);
    assert!(
        library
            .open_directory(&caller, b"plain")
            .expect("asked")
            .is_none()
    );
    assert_eq!(
        library.list(b"").expect_err("no memory").errno(),
        Errno::ENOMEM
    );

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    struct Heard;
    impl PathObserver for Heard {
        fn tell(&self, change: PathChange<'_>) {
            TOLD.lock().push(format!("{change:?}"));
        }
    }
    assert!(library.observe(Arc::new(Heard)));
    // SAFETY: what `init` of the table has made, which lives as long as the library.
    let echo = unsafe { &*library.0.state().cast::<Echo>() };
    let observer = echo.observer.lock().clone().expect("given");
    let all = [
        PathChange::Everything,
        PathChange::Name(b"a"),
        PathChange::Attributes(b"b/c"),
        PathChange::Content(b"d"),
    ];
    for change in all {
        observer.tell(change);
    }
    assert_eq!(TOLD.lock()[..], all.map(|change| format!("{change:?}")));
    let full = library.extended(Arc::new(Two)).expect_err("full");
    assert_eq!(full.errno(), Errno::E2BIG);
}

#[test]
fn what_a_driver_in_rust_says_of_its_mount_is_told() {
    let mount = culvert::mount::Mount {
        source: b"/other".to_vec(),
        ..mounted()
    };
    let error = Library::begin(Exported::<Echo>::DRIVER, &mount).err();
    let error = error.expect("another source");
    assert_eq!(error.errno(), Errno::ENODEV);
    assert!(error.to_string().contains("not that"), "{error}");
}

/// A tree of the kernel's, as a table says it.
#[test]
fn a_library_that_is_a_tree_says_which() {
    use core::ffi::c_void;
    use culvert::library::abi::Driver;

    static GIVES: Mutex<(i32, c_int)> = Mutex::new((-1, 0));
    extern "C" fn tree(_: *mut c_void, fd: *mut c_int) -> c_int {
        let (number, result) = *GIVES.lock();
        // SAFETY: room for a number.
        unsafe { *fd = number };
        result
    }
    let driver = Driver {
        tree: Some(tree),
        ..Driver::NONE
    };
    let library = Library::begin(driver, &mounted()).expect("it has no init");
    let root = crate::passthrough::kernel::open_root(b"/proc").expect("mounted");
    let (end, _other) = pipe(0).expect("a pipe");
    for (gives, want) in [
        ((root.raw(), 0), Ok(true)),
        ((root.raw(), Errno::ENOSYS.raw()), Ok(false)),
        ((root.raw(), Errno::EPERM.raw()), Err(Errno::EPERM)),
        ((end.raw(), 0), Err(Errno::EIO)),
        // AT_FDCWD.
        ((-100, 0), Err(Errno::EIO)),
    ] {
        *GIVES.lock() = gives;
        let found = library.tree().map(|found| found.is_some());
        assert_eq!(found.map_err(|error| error.errno()), want, "{gives:?}");
    }
}
