//! Children of vfork(2): they run in the memory of their parent, with a copy of its table of
//! descriptors, so that numbers of theirs mean something else in the parent.

use crate::service::socket;
use crate::tools::{Scratch, create_file, open_file, open_for, read_all, truncate, write_at};
use culvert::{FileSystem, OpenFlags, testing::caller};
use culvert_drivers::{Environment, Keeper};
use culvert_sync::{Listener, Service, Settings};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;

/// The table of descriptors of whoever runs.
static TABLE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        ...
    ) -> c_int;
    fn close_range(first: u32, last: u32, flags: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

/// CLONE_VM, CLONE_VFORK, SIGCHLD.
const VFORK: c_int = 0x100 | 0x4000 | 17;

/// What a child of vfork(2) does, while its parent waits. Nobody else may run meanwhile.
fn by_a_child<T>(work: impl FnOnce() -> T) -> T {
    struct Call<F, T>(Option<F>, Option<T>);
    extern "C" fn run<F: FnOnce() -> T, T>(call: *mut c_void) -> c_int {
        // SAFETY: the parent's, which waits.
        let call = unsafe { &mut *call.cast::<Call<F, T>>() };
        let work = call.0.take().map(AssertUnwindSafe);
        call.1 = work.and_then(|work| catch_unwind(|| { work }.0()).ok());
        0
    }
    fn runner<F: FnOnce() -> T, T>(_: &Call<F, T>) -> extern "C" fn(*mut c_void) -> c_int {
        run::<F, T>
    }
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let mut call = Call(Some(work), None);
    let mut stack = vec![0u128; 64 << 10];
    TABLE.store(NEXT.fetch_add(1, SeqCst), SeqCst);
    let (run, mut status) = (runner(&call), 0);
    // SAFETY: the child runs on a stack of its own, and ends before this goes on.
    let ended = unsafe {
        let end = stack.as_mut_ptr_range().end.cast();
        let pid = clone(run, end, VFORK, (&raw mut call).cast::<c_void>());
        waitpid(pid, &raw mut status, 0) == pid
    };
    TABLE.store(0, SeqCst);
    assert!(ended && status == 0, "{status:x}");
    call.1.expect("the child has done it")
}

fn open(scratch: &Scratch, options: &[&str]) -> Box<dyn FileSystem> {
    let keeper = Keeper {
        table: Some(|| TABLE.load(SeqCst)),
        ..Keeper::default()
    };
    let environment = Environment {
        keeper,
        ..Environment::default()
    };
    culvert_drivers::open(&scratch.prepared(options), &environment).unwrap()
}

/// One child at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Files that take the numbers that a child has used for something else.
fn others(scratch: &Scratch) -> Vec<File> {
    let path = |at| scratch.root.join(format!("other{at}"));
    let open = |at| File::options().create(true).append(true).open(path(at));
    (0..40).map(|at| open(at).unwrap()).collect()
}

#[test]
fn a_child_leaves_its_parents_writer_and_locks_as_they_are() {
    let _alone = ALONE.lock();
    let scratch = Scratch::new(1);
    let fs = open(&scratch, &["host=vm"]);
    // Where the parent has not written yet, what the child opens first must not become its own.
    for first in ["parent", "child"] {
        let file = create_file(&*fs, first);
        let mut want = Vec::new();
        if first == "parent" {
            file.append(&mut &b"1 parent\n"[..]).unwrap();
            want.extend(b"1 parent\n");
        }
        let left = by_a_child(|| {
            let own = open_for(&*fs, first, OpenFlags::WRITE).unwrap();
            own.append(&mut &b"2 child\n"[..]).unwrap();
            file.append(&mut &b"3 child, by what its parent opened\n"[..])
                .unwrap();
            assert!(read_all(&*file).unwrap().ends_with(b"parent opened\n"));
            truncate(&*file, file.attributes(&caller()).unwrap().size - 1).unwrap();
            file.append(&mut &b"\n"[..]).unwrap();
            file.sync(false).unwrap();
            file.flush().unwrap();
            fs.lookup(&caller(), fs.root(), first.as_bytes()).unwrap();
            let made = create_file(&*fs, &format!("of {first}"));
            write_at(&*made, 5, b"made");
            // As execve(2) does it: the parent lets go of what the child had.
            (own, made)
        });
        let others = others(&scratch);
        drop(left);
        want.extend(b"2 child\n3 child, by what its parent opened\n");
        file.append(&mut &b"4 parent\n"[..]).unwrap();
        write_at(&*file, 0, b"0");
        want.extend(b"4 parent\n");
        want[0] = b'0';
        assert_eq!(read_all(&*file).unwrap(), want, "{first}");
        file.sync(false).unwrap();
        for other in &others {
            assert_eq!(other.metadata().unwrap().len(), 0);
        }
        drop(others);
        let meta = scratch.backends[0].join(first).join("meta");
        let open = meta.join(format!("open.vm.{}", std::process::id()));
        // The parent still writes.
        assert!(open.exists());
        truncate(&*file, 3).unwrap();
        drop(file);
        assert!(!open.exists());
        let later = scratch.open(&[]);
        let file = open_file(&*later, first).unwrap();
        assert_eq!(read_all(&*file).unwrap(), want[..3]);
        let made = open_file(&*later, &format!("of {first}")).unwrap();
        assert_eq!(read_all(&*made).unwrap(), b"\0\0\0\0\0made");
    }
}

/// What a child removes or renames is removed or renamed for its parent, too.
#[test]
fn a_child_removes_and_renames_what_its_parent_has_open() {
    let _alone = ALONE.lock();
    let scratch = Scratch::new(1);
    let fs = open(&scratch, &[]);
    let file = create_file(&*fs, "f");
    file.append(&mut &b"one"[..]).unwrap();
    by_a_child(|| {
        let (root, none) = (fs.root(), culvert::RenameFlags(0));
        fs.rename(&caller(), (root, b"f"), (root, b"g"), none)
            .unwrap();
    });
    file.append(&mut &b"two"[..]).unwrap();
    by_a_child(|| fs.unlink(&caller(), fs.root(), b"g").unwrap());
    assert_eq!(file.attributes(&caller()).unwrap().links, 0);
    file.append(&mut &b"three"[..]).unwrap();
    assert_eq!(read_all(&*file).unwrap(), b"onetwothree");
    drop(file);
    let removed = scratch.backends[0].join(".culvert-removed");
    let left = || std::fs::read_dir(&removed).unwrap().count();
    // A program that another test starts may hold it until its exec: the next run removes it.
    for _ in 0..100 {
        if left() == 0 {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(20));
        drop(open(&scratch, &[]));
    }
    panic!("{} left", left());
}

/// A service with a table of descriptors of its own, as another process has, until this one ends:
/// what it closes and so unlocks must not be open in a child.
fn serve(scratch: &Scratch) {
    let (path, (ready, wait)) = (socket(scratch), mpsc::channel());
    thread::spawn(move || {
        // SAFETY: CLOSE_RANGE_UNSHARE; this thread has none of those that it closes.
        assert_eq!(unsafe { close_range(3, u32::MAX, 2) }, 0);
        let listener = Listener::new(&path).unwrap();
        let service = Service::new(listener, Settings::default()).unwrap();
        ready.send(()).unwrap();
        service.run(|| true)
    });
    wait.recv().unwrap();
}

/// What a child writes beside appends is told to the service as what its parent writes is: appends
/// are behind it, and other runs see it at once.
#[test]
fn appends_are_behind_what_a_child_has_written() {
    let _alone = ALONE.lock();
    let scratch = Scratch::new(1);
    serve(&scratch);
    let sync = format!("sync={}", socket(&scratch).display());
    let (fs, other) = (open(&scratch, &[&sync]), scratch.open(&[&sync]));
    let file = create_file(&*fs, "f");
    let others = open_for(&*other, "f", OpenFlags::READ_WRITE).unwrap();
    let mut want = Vec::new();
    for step in 0..40 {
        // In one turn, mostly.
        assert_eq!(
            others.append(&mut &b"other"[..]).unwrap().0,
            want.len() as u64
        );
        want.extend(b"other");
        let left = by_a_child(|| {
            let own = open_for(&*fs, "f", OpenFlags::WRITE).unwrap();
            let by = if step % 2 == 0 { &own } else { &file };
            write_at(&**by, want.len() as u64 + 3, b"child");
            own
        });
        want.extend(b"\0\0\0child");
        let size = others.attributes(&caller()).unwrap().size;
        assert_eq!(size, want.len() as u64, "step {step}");
        let appends = if step % 3 == 0 { &file } else { &others };
        let done = appends.append(&mut &b"append"[..]).unwrap();
        assert_eq!(done, (want.len() as u64, 6), "step {step}");
        want.extend(b"append");
        drop(left);
    }
    assert_eq!(read_all(&*file).unwrap(), want);
}
