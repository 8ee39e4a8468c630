//! A driver by paths as the table of C functions that a library exports.

use super::abi::{self, Dirent, Driver, Flock, Observer, Stat, StatVfs};
use super::answers::{UNCHANGED, UTIME_OMIT, time_of};
use super::maps::ForeignMaps;
use super::waits::{Observed, Waits, waker};
use crate::path::{PathDirectory, PathEntry, PathFileSystem};
use crate::{
    Access, Caching, Caller, Errno, LockKind, LockOwner, OpenFlags, RenameFlags, Result,
    SetAttributes, Timespec, Wait, Whence,
};
use alloc::{boxed::Box, string::ToString, sync::Arc, vec::Vec};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::{marker::PhantomData, slice};

/// What a library is asked to serve.
#[derive(Clone, Debug)]
pub struct MountRequest<'a> {
    /// An absolute path, where the source names a file that is there; else as the user wrote it.
    pub source: &'a [u8],
    /// An absolute path.
    pub target: &'a [u8],
    /// Names and values; a value is empty where the user gave none.
    pub options: Vec<(&'a [u8], &'a [u8])>,
    /// Nothing may be changed.
    pub read_only: bool,
}

/// A driver by paths that a library exports with [`export_driver!`](crate::export_driver).
pub trait Mounted: PathFileSystem + Sized + 'static {
    /// Nothing that one call leaves in memory matters to another one: each process of a run may
    /// have a state of its own. Such a driver, where the library needs no libc, runs in the
    /// programs themselves (`place=process`).
    const STATELESS: bool = false;

    /// One call at a time.
    const ONE_AT_A_TIME: bool = false;

    /// The mount begins.
    ///
    /// # Errors
    /// What the user is told, cause and all.
    fn mount(request: &MountRequest<'_>) -> Result<Self>;
}

/// The table of a driver.
pub struct Exported<T>(PhantomData<T>);

type Who = *mut c_void;
type Name = *const c_char;
type Handle = *mut c_void;

impl<T: Mounted> Exported<T> {
    /// What [`export_driver!`](crate::export_driver) exports.
    pub const DRIVER: Driver = Driver {
        flags: abi::CALLERS
            | if T::STATELESS { abi::STATELESS } else { 0 }
            | if T::ONE_AT_A_TIME {
                abi::ONE_AT_A_TIME
            } else {
                0
            },
        init: Some(init::<T>),
        finalize: Some(finalize::<T>),
        open: Some(open::<T>),
        close: Some(close::<T>),
        read: Some(read::<T>),
        write: Some(write::<T>),
        fsync: Some(fsync::<T>),
        ftruncate: Some(ftruncate::<T>),
        fgetattr: Some(fgetattr::<T>),
        save: Some(save::<T>),
        restore: Some(restore::<T>),
        getattr: Some(getattr::<T>),
        truncate: Some(truncate::<T>),
        readlink: Some(readlink::<T>),
        unlink: Some(unlink::<T>),
        mkdir: Some(mkdir::<T>),
        rmdir: Some(rmdir::<T>),
        getdirents: Some(getdirents::<T>),
        chown: Some(chown::<T>),
        chmod: Some(chmod::<T>),
        access: Some(access::<T>),
        rename: Some(rename::<T>),
        utime: Some(utime::<T>),
        symlink: Some(symlink::<T>),
        link: Some(link::<T>),
        mknod: Some(mknod::<T>),
        statfs: Some(statfs::<T>),
        flush: Some(flush::<T>),
        fallocate: Some(fallocate::<T>),
        lseek: Some(lseek::<T>),
        getxattr: Some(getxattr::<T>),
        setxattr: Some(setxattr::<T>),
        listxattr: Some(listxattr::<T>),
        removexattr: Some(removexattr::<T>),
        capabilities: Some(capabilities::<T>),
        descriptor: Some(descriptor::<T>),
        copy: Some(copy::<T>),
        ioctl: Some(ioctl::<T>),
        fsyncdir: Some(fsyncdir::<T>),
        syncfs: Some(syncfs::<T>),
        caching: Some(caching::<T>),
        poll: Some(poll::<T>),
        getlk: Some(getlk::<T>),
        setlk: Some(setlk::<T>),
        flock: Some(flock::<T>),
        opendir: Some(opendir::<T>),
        listdir: Some(listdir::<T>),
        syncdir: Some(syncdir::<T>),
        closedir: Some(closedir::<T>),
        observe: Some(observe::<T>),
        tree: Some(tree::<T>),
        extended: Some(extended::<T>),
        ..Driver::NONE
    };
}

/// A result as C has it; what was given is put where it belongs by `put`.
fn answer<R>(result: Result<R>, put: impl FnOnce(R)) -> c_int {
    match result {
        Ok(found) => {
            put(found);
            0
        }
        Err(error) => error.errno().raw(),
    }
}

fn done(result: Result<()>) -> c_int {
    answer(result, drop)
}

/// The driver, and who asks.
///
/// # Safety
/// `who` is a caller as `CULVERT_CALLERS` gives it, with what `init` has made.
unsafe fn of<'a, T>(who: Who) -> (&'a T, Caller<'a>) {
    // SAFETY: the caller's promise; a missing list of groups has no members.
    unsafe {
        let found = &*who.cast::<abi::Caller>();
        let groups = match found.group_count {
            0 => &[],
            count => slice::from_raw_parts(found.groups, count),
        };
        let caller = Caller {
            uid: found.uid,
            gid: found.gid,
            groups,
            pid: found.pid,
            umask: found.umask,
            rights: None,
        };
        (&*found.state.cast::<T>(), caller)
    }
}

/// # Safety
/// A string.
unsafe fn text<'a>(name: Name) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// # Safety
/// `file` is what `open` has given.
unsafe fn handle<'a, T: Mounted>(file: Handle) -> &'a T::Handle {
    // SAFETY: the caller's promise.
    unsafe { &*file.cast::<T::Handle>() }
}

fn opened<T: Mounted>(result: Result<T::Handle>, file: *mut Handle) -> c_int {
    // SAFETY: the header: a place for it.
    answer(result, |handle| unsafe {
        *file = Box::into_raw(Box::new(handle)).cast();
    })
}

/// Defines C functions: what stands in their bodies may use the arguments as the header gives them.
macro_rules! functions {
    ($($name:ident<$t:ident>($($argument:ident: $type:ty),*) $body:block)*) => { $(
        // Some need no more than the handle; the table names all of them alike.
        #[allow(clippy::extra_unused_type_parameters)]
        extern "C" fn $name<$t: Mounted>($($argument: $type),*) -> c_int {
            // SAFETY: the header says what each argument is, and that it lives as long as the call.
            unsafe { $body }
        }
    )* };
}

/// The end: nobody has the state any more.
extern "C" fn finalize<T: Mounted>(state: *mut c_void) {
    // SAFETY: `init` has made it, and this is called once.
    let driver = unsafe { Box::from_raw(state.cast::<T>()) };
    driver.finish();
}

functions! {
    init<T>(mount: *const abi::Mounted, state: *mut *mut c_void) {
        let mount = &*mount;
        let options = match mount.option_count {
            0 => &[],
            count => slice::from_raw_parts(mount.options, count),
        };
        let options = options.iter().map(|&option| {
            let option = text(option);
            match option.iter().position(|&byte| byte == b'=') {
                Some(at) => (&option[..at], &option[at + 1..]),
                None => (option, &[][..]),
            }
        });
        let made = T::mount(&MountRequest {
            source: text(mount.source),
            target: text(mount.target),
            options: options.collect(),
            read_only: mount.read_only != 0,
        });
        if let Err(error) = &made && error.cause().is_some() && mount.reason_size > 0 {
            let words = error.to_string();
            let count = words.len().min(mount.reason_size - 1);
            mount.reason.cast::<u8>().copy_from_nonoverlapping(words.as_ptr(), count);
            *mount.reason.add(count) = 0;
        }
        answer(made, |driver| *state = Box::into_raw(Box::new(driver)).cast())
    }

    capabilities<T>(who: Who, flags: *mut u64) {
        let (driver, _) = of::<T>(who);
        let can = driver.capabilities();
        for (is, flag) in [
            (can.read_only, abi::READ_ONLY),
            (can.immutable, abi::IMMUTABLE),
            (!can.xattrs, abi::NO_XATTRS),
            (!can.hard_links, abi::NO_LINKS),
            (!can.checks_permissions, abi::NO_ACCESS),
            (!can.polls, abi::NO_POLL),
            (driver.keeps_unlinked(), abi::KEEPS_UNLINKED),
            (driver.opens_files_only(), abi::OPENS_FILES),
        ] {
            *flags |= if is { flag } else { 0 };
        }
        0
    }

    open<T>(who: Who, path: Name, flags: c_int, mode: u32, file: *mut Handle) {
        const O_CREAT: u32 = 0o100;
        let (driver, caller) = of::<T>(who);
        let wanted = OpenFlags(flags as u32 & !O_CREAT);
        opened::<T>(match flags as u32 & O_CREAT {
            0 => driver.open(&caller, text(path), wanted),
            _ => driver.create(&caller, text(path), wanted, mode),
        }, file)
    }

    close<T>(who: Who, file: Handle) {
        let _ = who;
        drop(Box::from_raw(file.cast::<T::Handle>()));
        0
    }

    read<T>(who: Who, file: Handle, buffer: *mut u8, size: usize, offset: i64, count: *mut usize) {
        let (driver, _) = of::<T>(who);
        // What it holds is initialised: the caller's buffers are.
        let buffer = slice::from_raw_parts_mut(buffer, size);
        answer(driver.read(handle::<T>(file), offset as u64, buffer), |read| *count = read)
    }

    write<T>(who: Who, file: Handle, buffer: *const u8, size: usize, offset: i64, count: *mut usize) {
        let (driver, _) = of::<T>(who);
        let bytes = slice::from_raw_parts(buffer, size);
        answer(driver.write(handle::<T>(file), offset as u64, bytes), |written| *count = written)
    }

    fsync<T>(who: Who, file: Handle, data_only: c_int) {
        done(of::<T>(who).0.sync(handle::<T>(file), data_only != 0))
    }

    ftruncate<T>(who: Who, file: Handle, size: i64) {
        let changes = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
        let changed = of::<T>(who).0.set_handle_attributes(handle::<T>(file), &changes);
        changed.map_or(Errno::ENOSYS.raw(), done)
    }

    fgetattr<T>(who: Who, file: Handle, found: *mut Stat) {
        let asked = of::<T>(who).0.handle_attributes(handle::<T>(file));
        asked.map_or(Errno::ENOSYS.raw(), |asked| answer(asked, |is| *found = Stat::from(&is)))
    }

    save<T>(who: Who, file: Handle, buffer: *mut u8, size: *mut usize) {
        let saved = of::<T>(who).0.save(handle::<T>(file));
        put(saved, buffer, size)
    }

    restore<T>(who: Who, path: Name, flags: c_int, saved: *const u8, size: usize, file: *mut Handle) {
        let (driver, caller) = of::<T>(who);
        let saved = match size {
            0 => &[],
            size => slice::from_raw_parts(saved, size),
        };
        opened::<T>(driver.restore(&caller, text(path), OpenFlags(flags as u32), saved), file)
    }

    getattr<T>(who: Who, path: Name, found: *mut Stat) {
        answer(of::<T>(who).0.attributes(text(path)), |is| *found = Stat::from(&is))
    }

    truncate<T>(who: Who, path: Name, size: i64) {
        let size = Some(size as u64);
        change::<T>(who, path, &SetAttributes { size, ..SetAttributes::default() })
    }

    readlink<T>(who: Who, path: Name, buffer: *mut c_char, size: usize) {
        match of::<T>(who).0.readlink(text(path)) {
            Err(error) => error.errno().raw(),
            Ok(target) if target.len() >= size => Errno::ENAMETOOLONG.raw(),
            Ok(target) => {
                buffer.cast::<u8>().copy_from_nonoverlapping(target.as_ptr(), target.len());
                *buffer.add(target.len()) = 0;
                0
            }
        }
    }

    unlink<T>(who: Who, path: Name) {
        let (driver, caller) = of::<T>(who);
        done(driver.unlink(&caller, text(path)))
    }

    mkdir<T>(who: Who, path: Name, mode: u32) {
        let (driver, caller) = of::<T>(who);
        done(driver.mkdir(&caller, text(path), mode))
    }

    rmdir<T>(who: Who, path: Name) {
        let (driver, caller) = of::<T>(who);
        done(driver.rmdir(&caller, text(path)))
    }

    getdirents<T>(who: Who, path: Name, entries: *mut Dirent, room: usize, count: *mut usize) {
        named(of::<T>(who).0.list(text(path)), entries, room, count)
    }

    chown<T>(who: Who, path: Name, uid: u32, gid: u32) {
        let [uid, gid] = [uid, gid].map(|one| Some(one).filter(|&one| one != UNCHANGED));
        change::<T>(who, path, &SetAttributes { uid, gid, ..SetAttributes::default() })
    }

    chmod<T>(who: Who, path: Name, mode: u32) {
        let permissions = Some(mode);
        change::<T>(who, path, &SetAttributes { permissions, ..SetAttributes::default() })
    }

    access<T>(who: Who, path: Name, mode: c_int) {
        let (driver, caller) = of::<T>(who);
        done(driver.access(&caller, text(path), Access(mode as u32)))
    }

    rename<T>(who: Who, from: Name, to: Name, flags: u32) {
        let (driver, caller) = of::<T>(who);
        done(driver.rename(&caller, text(from), text(to), RenameFlags(flags)))
    }

    utime<T>(who: Who, path: Name, times: *const [i64; 4]) {
        let [a, b, c, d] = *times;
        let one = |time: [i64; 2]| -> Option<Timespec> {
            Some(time_of(time)).filter(|_| time[1] != UTIME_OMIT)
        };
        let (atime, mtime) = (one([a, b]), one([c, d]));
        change::<T>(who, path, &SetAttributes { atime, mtime, ..SetAttributes::default() })
    }

    symlink<T>(who: Who, target: Name, path: Name) {
        let (driver, caller) = of::<T>(who);
        done(driver.symlink(&caller, text(path), text(target)))
    }

    link<T>(who: Who, path: Name, name: Name) {
        let (driver, caller) = of::<T>(who);
        done(driver.link(&caller, text(path), text(name)))
    }

    mknod<T>(who: Who, path: Name, mode: u32, device: u64) {
        let (driver, caller) = of::<T>(who);
        done(driver.mknod(&caller, text(path), mode, device))
    }

    statfs<T>(who: Who, found: *mut StatVfs) {
        answer(of::<T>(who).0.statfs(), |is| *found = StatVfs::from(&is))
    }

    flush<T>(who: Who, file: Handle) {
        done(of::<T>(who).0.flush(handle::<T>(file)))
    }

    fallocate<T>(who: Who, file: Handle, mode: c_int, offset: i64, length: i64) {
        let (offset, length) = (offset as u64, length as u64);
        done(of::<T>(who).0.allocate(handle::<T>(file), mode as u32, offset, length))
    }

    lseek<T>(who: Who, file: Handle, offset: i64, whence: c_int, found: *mut i64) {
        const SEEK_DATA: c_int = 3;
        let whence = match whence {
            SEEK_DATA => Whence::Data,
            _ => Whence::Hole,
        };
        let asked = of::<T>(who).0.seek(handle::<T>(file), offset as u64, whence);
        asked.map_or(Errno::ENOSYS.raw(), |asked| answer(asked, |at| *found = at as i64))
    }

    getxattr<T>(who: Who, path: Name, name: Name, value: *mut u8, size: *mut usize) {
        let (driver, caller) = of::<T>(who);
        put(driver.get_xattr(&caller, text(path), text(name)), value, size)
    }

    setxattr<T>(who: Who, path: Name, name: Name, value: *const u8, size: usize, flags: c_int) {
        let (driver, caller) = of::<T>(who);
        let value = match size {
            0 => &[],
            size => slice::from_raw_parts(value, size),
        };
        done(driver.set_xattr(&caller, text(path), text(name), value, flags as u32))
    }

    listxattr<T>(who: Who, path: Name, names: *mut u8, size: *mut usize) {
        let (driver, caller) = of::<T>(who);
        put(driver.list_xattr(&caller, text(path)), names, size)
    }

    removexattr<T>(who: Who, path: Name, name: Name) {
        let (driver, caller) = of::<T>(who);
        done(driver.remove_xattr(&caller, text(path), text(name)))
    }

    descriptor<T>(who: Who, file: Handle, fd: *mut c_int) {
        let found = of::<T>(who).0.descriptor(handle::<T>(file));
        found.map_or(Errno::ENOSYS.raw(), |found| {
            *fd = found;
            0
        })
    }

    copy<T>(
        who: Who, from: Handle, offset: i64, to: Handle, to_offset: i64, length: usize,
        count: *mut usize
    ) {
        let (from, to) = ((handle::<T>(from), offset as u64), (handle::<T>(to), to_offset as u64));
        let copied = of::<T>(who).0.copy_range(from, to, length as u64);
        answer(copied, |copied| *count = usize::try_from(copied).unwrap_or(usize::MAX))
    }

    tree<T>(who: Who, fd: *mut c_int) {
        of::<T>(who).0.tree().map_or(Errno::ENOSYS.raw(), |found| {
            *fd = found;
            0
        })
    }

    ioctl<T>(who: Who, file: Handle, request: u32, argument: *mut c_void, size: usize, result: *mut c_int) {
        let argument: &mut [u8] = match size {
            0 => &mut [],
            size => slice::from_raw_parts_mut(argument.cast(), size),
        };
        let asked = of::<T>(who).0.ioctl(handle::<T>(file), request, argument);
        answer(asked, |given| *result = given as c_int)
    }

    fsyncdir<T>(who: Who, path: Name, data_only: c_int) {
        done(of::<T>(who).0.sync_directory(text(path), data_only != 0))
    }

    syncfs<T>(who: Who) {
        done(of::<T>(who).0.sync_all())
    }

    caching<T>(who: Who, file: Handle, how: *mut c_int) {
        *how = match of::<T>(who).0.caching(handle::<T>(file)) {
            Caching::UntilChanged => 0,
            Caching::Keep => 1,
            Caching::Never => 2,
        };
        0
    }

    poll<T>(who: Who, file: Handle, waiter: *mut abi::Waker, events: *mut u32) {
        let waiter = waker(waiter);
        let asked = of::<T>(who).0.poll(handle::<T>(file), waiter.as_ref());
        answer(asked, |ready| *events = ready.0.into())
    }

    getlk<T>(who: Who, file: Handle, owner: u64, lock: *mut Flock) {
        const F_UNLCK: i16 = 2;
        let Some(asked) = (*lock).lock() else {
            return Errno::EINVAL.raw();
        };
        let found = of::<T>(who).0.get_lock(handle::<T>(file), LockOwner(owner), &asked);
        answer(found, |found| match found {
            Some(found) => *lock = Flock::from(&found),
            None => (*lock).kind = F_UNLCK,
        })
    }

    setlk<T>(who: Who, file: Handle, owner: u64, lock: *const Flock, wait: *const abi::Wait) {
        let Some(lock) = (*lock).lock() else {
            return Errno::EINVAL.raw();
        };
        let (driver, file, owner) = (of::<T>(who).0, handle::<T>(file), LockOwner(owner));
        waiting(wait, |wait| driver.set_lock(file, owner, &lock, wait))
    }

    flock<T>(who: Who, file: Handle, owner: u64, operation: c_int, wait: *const abi::Wait) {
        // LOCK_SH, LOCK_EX, LOCK_UN (flock(2)).
        let kind = match operation {
            1 => LockKind::Shared,
            2 => LockKind::Exclusive,
            8 => LockKind::Unlock,
            _ => return Errno::EINVAL.raw(),
        };
        let (driver, file, owner) = (of::<T>(who).0, handle::<T>(file), LockOwner(owner));
        waiting(wait, |wait| driver.flock(file, owner, kind, wait))
    }

    opendir<T>(who: Who, path: Name, directory: *mut Handle) {
        let (driver, caller) = of::<T>(who);
        match driver.open_directory(&caller, text(path)) {
            Err(error) => error.errno().raw(),
            Ok(None) => Errno::ENOSYS.raw(),
            Ok(Some(kept)) => {
                *directory = Box::into_raw(Box::new(kept)).cast();
                0
            }
        }
    }

    listdir<T>(who: Who, directory: Handle, entries: *mut Dirent, room: usize, count: *mut usize) {
        let _ = of::<T>(who);
        named(kept(directory).list(), entries, room, count)
    }

    syncdir<T>(who: Who, directory: Handle, data_only: c_int) {
        let _ = of::<T>(who);
        done(kept(directory).sync(data_only != 0))
    }

    closedir<T>(who: Who, directory: Handle) {
        let _ = of::<T>(who);
        drop(Box::from_raw(directory.cast::<Box<dyn PathDirectory>>()));
        0
    }

    observe<T>(who: Who, observer: *const Observer) {
        match of::<T>(who).0.observe(Arc::new(Observed::new(observer))) {
            true => 0,
            false => Errno::ENOSYS.raw(),
        }
    }

    extended<T>(who: Who, maps: *const abi::Maps) {
        done(of::<T>(who).0.extended(Arc::new(ForeignMaps::new(maps))))
    }
}

/// # Safety
/// `directory` is what `opendir` has given.
unsafe fn kept<'a>(directory: Handle) -> &'a dyn PathDirectory {
    // SAFETY: the caller's promise.
    unsafe { &**directory.cast::<Box<dyn PathDirectory>>() }
}

/// Puts `found` where `room` of them have room.
///
/// # Safety
/// They have.
unsafe fn named(
    found: Result<Vec<PathEntry>>,
    entries: *mut Dirent,
    room: usize,
    count: *mut usize,
) -> c_int {
    let found = match found {
        Err(error) => return error.errno().raw(),
        Ok(found) => found,
    };
    // SAFETY: the caller's promise.
    let places = unsafe {
        *count = found.len();
        slice::from_raw_parts_mut(entries, room)
    };
    for (place, entry) in places.iter_mut().zip(&found) {
        if !place.set(&entry.name, entry.kind, entry.inode) {
            return Errno::EIO.raw();
        }
    }
    0
}

/// Runs `set` with what `wait` says.
///
/// # Safety
/// Null, or one that lives as long as the call.
unsafe fn waiting(wait: *const abi::Wait, set: impl FnOnce(Wait<'_>) -> Result<()>) -> c_int {
    // SAFETY: the caller's promise.
    done(match unsafe { Waits::new(wait) } {
        None => set(Wait::Never),
        Some(waits) => set(Wait::UntilInterrupted(&|| waits.is_over())),
    })
}

/// # Safety
/// A caller and a string.
unsafe fn change<T: Mounted>(who: Who, path: Name, changes: &SetAttributes) -> c_int {
    // SAFETY: the caller's promise.
    let ((driver, caller), path) = unsafe { (of::<T>(who), text(path)) };
    done(driver.set_attributes(Some(&caller), path, changes))
}

/// Puts `bytes` into a buffer; ERANGE where it is too small.
///
/// # Safety
/// `size` says how large the buffer is.
unsafe fn put(bytes: Result<Vec<u8>>, buffer: *mut u8, size: *mut usize) -> c_int {
    let bytes = match bytes {
        Err(error) => return error.errno().raw(),
        Ok(bytes) => bytes,
    };
    // SAFETY: the caller's promise.
    unsafe {
        if bytes.len() > *size {
            return Errno::ERANGE.raw();
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        *size = bytes.len();
    }
    0
}

/// Exports a driver, a type that implements [`Mounted`](crate::library::Mounted), as the library
/// that the crate is (`crate-type = ["cdylib"]`).
#[macro_export]
macro_rules! export_driver {
    ($driver:ty) => {
        /// What Culvert looks for in the library.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static culvert_driver: $crate::library::abi::Driver =
            $crate::library::Exported::<$driver>::DRIVER;
    };
}
