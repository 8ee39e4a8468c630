//! Processes: fork, exec, and interfaces that would go round every hook.

use super::arguments::{descriptor, native};
use super::{credentials, done};
use crate::descriptors::with_more;
use crate::descriptors::with_own_table;
use crate::exec::{self, Loader, Program, Why};
use crate::memory::{Path, PathBuffer, c_string};
use crate::process;
use crate::process::tables::{self, may_share_table, separate};
use crate::resolver::{Inside, LastStep, References, Restrictions};
use crate::run::{ShadowName, stat_descriptor, stat_path};
use crate::vfs::backed::Backed;
use crate::vfs::path::{Found, existing, find, find_by_walking, look_again};
use crate::vfs::permission::{granted, permits};
use alloc::format;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Errno, FileKind};
use culvert_intercept::filters::Filter;
use culvert_intercept::{Call, CloneFlags, ForkHooks, Outcome, descriptors as classes};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::raw::prctl::PR_SET_SECUREBITS;
use culvert_sys::sync::Mutex;
use culvert_sys::{nr, own_descriptors, syscall};

/// What happens around the making of processes.
pub const FORK_HOOKS: ForkHooks = ForkHooks {
    before,
    parent,
    child,
};

/// What makes the heap smaller.
static TRIM: Mutex<Option<fn()>> = Mutex::new(None);

/// Before memory is copied for another process, `trim` gives back what the heap does not need.
pub fn trim_with(trim: fn()) {
    *TRIM.lock() = Some(trim);
}

fn before(flags: CloneFlags) {
    let vfork = flags.vm() && flags.vfork();
    let process = process::get();
    if flags.vm() && !flags.vfork() && !flags.thread() {
        crate::ending::shares_memory();
    }
    if !flags.vm()
        && let Some(trim) = *TRIM.lock()
    {
        trim();
    }
    if flags.new_user() {
        credentials::before_entering();
    }
    if vfork {
        process.before_vfork();
    }
    if flags.fs() && !flags.vm() {
        process::get().share_working_directory();
        process::limits::umask_is_shared();
    }
    // The child shares open file descriptions, so the kernel must keep them from here on.
    let promoted = match process.table.promote_all(false) {
        // A full table is no reason to lose what a child inherits.
        Err(Errno::EMFILE) => {
            let promote = || process.table.promote_all(false);
            with_more(promote)
                .or_else(|| process.run.without_placeholder(promote))
                .unwrap_or(Err(Errno::EMFILE))
        }
        promoted => promoted,
    };
    if let Err(error) = promoted {
        crate::log!("fork: some descriptors of mounts will not be shared with the child: {error}");
    }
    // One table for two memories, or one memory for two tables.
    if flags.files() && !flags.vm() {
        process.table.ask();
        crate::paging::nodes::lend();
    } else if !flags.files() && flags.vm() && !vfork && !tables::are_asked_for() {
        culvert_intercept::exclusively(|| {
            // What other threads have opened since.
            let _ = process.table.promote_all(false);
            process.table.ask();
        });
    }
    if flags.files()
        && !flags.vm()
        && let Err(error) = classes::share()
    {
        crate::log!("fork: a child may close descriptors that Culvert holds: {error}");
    }
    if vfork {
        process::enter_vfork(flags.files());
    }
}

fn parent(flags: CloneFlags, _result: isize) {
    if flags.vm() && flags.vfork() {
        process::leave_vfork();
    }
}

fn child(flags: CloneFlags) {
    if flags.new_user() {
        process::enter_user_namespace();
    }
    if flags.vm() {
        if !flags.vfork() && !flags.files() {
            tables::thread_has_own();
        }
        return;
    }
    let process = process::get();
    process::forget_pid();
    crate::ending::forked();
    if culvert_intercept::forked_beside_others() {
        crate::run::node_locks::NodeLocks::forget_lent();
        process
            .table
            .each(|_, description| description.forget_turn());
    }
    process.run.posix_locks.forget_all(flags.files());
    let other_table = tables::forked(flags.files());
    if !flags.files() && tables::are_asked_for() {
        separate();
    }
    let mounts = &process.mounts;
    for driver in mounts
        .ids()
        .filter_map(|mount| mounts.driver_if_open(mount))
    {
        driver.forked(flags.files());
    }
    if other_table {
        process.table.forget_all();
    }
    crate::paging::pager_forked::forked(flags.files());
    // With a connection of its own.
    crate::paging::stores::forked();
    crate::paging::stores::rewatch_absent();
    crate::paging::pager_forked::settle();
}

fn program(mut found: Inside<'_>) -> Result<Program, Errno> {
    let attributes = *existing(&found)?;
    if attributes.kind == FileKind::Symlink {
        return Err(Errno::ELOOP);
    }
    if attributes.kind != FileKind::Regular {
        return Err(Errno::EACCES);
    }
    let file_system = process::file_system(found.mount)?;
    granted(file_system, &process::caller(), &attributes, 1)?;
    let path = process::get()
        .mounts
        .path_of_node(found.mount, attributes.node)
        .map_err(|error| error.errno())?;
    Ok(Program::Mount {
        path,
        name: ShadowName {
            mount: found.mount.0,
            node: attributes.node,
        },
        keeper: found.references.take_all(process::get().mounts),
    })
}

/// A program in the backing tree of a mount, which the kernel starts from the source.
fn backed_program(place: &Backed<'_>) -> Result<Program, Errno> {
    let mut path = crate::run::descriptor_path(place.base)?;
    path.push(b'/');
    path.extend_from_slice(place.path().bytes());
    let seen = crate::backing::seen(place.mount, &path);
    path.push(0);
    Ok(Program::Backed { host: path, seen })
}

/// Where the program at `path` is, for a caller in `directory`.
fn locate(directory: i32, path: &[u8], last: LastStep) -> Result<Program, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let host = || {
        let absolute = path[0] == b'/' || directory == AT_FDCWD;
        Program::Host(if absolute {
            c_string(path)
        } else {
            [
                format!("{}{directory}/", own_descriptors::directory()).as_bytes(),
                path,
                b"\0",
            ]
            .concat()
        })
    };
    let owned = c_string(path);
    let text = Path::of(&owned);
    let mut found = find(directory, text, last, Restrictions(0))?;
    if matches!(&found, Found::Backed(place) if !place.is_resolved()) {
        found = find_by_walking(directory, text, last, Restrictions(0))?;
    }
    match found {
        Found::Inside(found) => program(found),
        Found::Backed(place) => backed_program(&place),
        Found::Outside(path) => Ok(Program::Host(path)),
        Found::MagicLink(_) | Found::Kernel => {
            let host = host();
            let Program::Host(full) = &host else {
                return Ok(host);
            };
            if !matches!(stat_path(full), Err(Errno::ENOENT | Errno::ENOTDIR)) {
                return Ok(host);
            }
            match look_again(directory, text, last, Restrictions(0), false)? {
                Found::Inside(found) => program(found),
                Found::Backed(place) => backed_program(&place),
                Found::Outside(path) => Ok(Program::Host(path)),
                _ => Ok(host),
            }
        }
    }
}

/// execve(2), execveat(2) below another root: the program is the kernel's to find, and does not
/// join.
fn execute_elsewhere() -> Outcome {
    match exec::hand_down(process::get(), &Loader::None(Why::NoLibrary)) {
        Ok(()) => Outcome::Forward,
        Err(errno) => done(Err(errno)),
    }
}

/// execve(2)
pub fn execve(call: &mut Call) -> Outcome {
    let [path, arguments, environment, ..] = call.args;
    let mut path_room = PathBuffer::new();
    let path = match path_room.read(path) {
        Ok(path) => path,
        Err(errno) => return done(Err(errno)),
    };
    if crate::task::has_left() {
        return execute_elsewhere();
    }
    crate::paging::executes();
    done(Err(exec::execute(
        path.bytes(),
        arguments,
        environment,
        &|path| locate(AT_FDCWD, path, LastStep::Follow),
    )))
}

/// execveat(2)
pub fn execveat(call: &mut Call) -> Outcome {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    const AT_EMPTY_PATH: usize = 0x1000;
    const AT_EXECVE_CHECK: usize = 0x10000;
    let [fd, path, arguments, environment, flags, _] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EXECVE_CHECK) != 0 {
        return Outcome::Forward;
    }
    if crate::task::has_left() {
        return execute_elsewhere();
    }
    let mut path_room = PathBuffer::new();
    let path = match path_room.read(path) {
        Ok(path) => path,
        Err(errno) => return done(Err(errno)),
    };
    let fd = fd as i32;
    let ours = descriptor(fd as usize);
    if flags & AT_EXECVE_CHECK != 0 {
        return if ours.is_some() {
            done(Err(Errno::EINVAL))
        } else {
            Outcome::Forward
        };
    }
    if path.is_empty() && flags & AT_EMPTY_PATH == 0 {
        return done(Err(Errno::ENOENT));
    }
    if ours.is_none()
        && let Err(errno) = may_start_below(fd, path)
    {
        return done(Err(errno));
    }
    crate::paging::executes();
    if path.is_empty() {
        // As the kernel calls it, for scripts (`alloc_bprm`, fs/exec.c).
        let shown = format!("/dev/fd/{fd}");
        return done(Err(exec::execute(
            shown.as_bytes(),
            arguments,
            environment,
            &|path| {
                if path != shown.as_bytes() {
                    return locate(AT_FDCWD, path, LastStep::Follow);
                }
                let Some(held) = descriptor(fd as usize) else {
                    let host = c_string(format!("{}{fd}", own_descriptors::directory()).as_bytes());
                    let table = &process::get().table;
                    let mount = table.backed(fd).or_else(|| table.opened_through(fd));
                    return Ok(match mount {
                        Some(mount) => Program::Backed {
                            host,
                            seen: crate::backing::seen(mount, &crate::run::descriptor_path(fd)?),
                        },
                        None => Program::Host(host),
                    });
                };
                let attributes = crate::description::described(&held)?;
                if attributes.kind == FileKind::Symlink {
                    return Err(Errno::ELOOP);
                }
                if attributes.kind != FileKind::Regular
                    || !permits(&process::caller(), &attributes, 1)
                {
                    return Err(Errno::EACCES);
                }
                Ok(Program::Mount {
                    path: crate::vfs::shown::shown_path(&held)?,
                    name: ShadowName {
                        mount: held.mount.0,
                        node: held.node,
                    },
                    // The description keeps it.
                    keeper: References::default(),
                })
            },
        )));
    }
    let last = if flags & AT_SYMLINK_NOFOLLOW != 0 {
        LastStep::NoFollow
    } else {
        LastStep::Follow
    };
    let text = path.bytes();
    // As the kernel calls it, for scripts (`alloc_bprm`, fs/exec.c).
    let first = match text.first() {
        Some(b'/') => text.to_vec(),
        _ if fd == AT_FDCWD => text.to_vec(),
        _ => [format!("/dev/fd/{fd}/").as_bytes(), text].concat(),
    };
    done(Err(exec::execute(
        &first,
        arguments,
        environment,
        &|path| {
            if path == first {
                let program = locate(fd, text, last)?;
                match last == LastStep::NoFollow && is_link(&program) {
                    // The kernel is told a path without a flag.
                    true => Err(Errno::ELOOP),
                    false => Ok(program),
                }
            } else {
                locate(AT_FDCWD, path, LastStep::Follow)
            }
        },
    )))
}

/// Whether the kernel's own descriptor `fd` is one that execveat(2) of `path` can start from
/// (`path_init`, fs/namei.c, and `do_open_execat`, fs/exec.c).
fn may_start_below(fd: i32, path: Path<'_>) -> Result<(), Errno> {
    if fd == AT_FDCWD {
        return match path.is_empty() {
            true => Err(Errno::EACCES), // a directory
            false => Ok(()),
        };
    }
    if path.bytes().first() == Some(&b'/') {
        return Ok(());
    }
    if process::get().run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    let mode = stat_descriptor(fd)?.st_mode;
    match FileKind::of_mode(mode) == Some(FileKind::Directory) || path.is_empty() {
        true => Ok(()),
        false => Err(Errno::ENOTDIR),
    }
}

/// Whether the kernel would find a symbolic link there, and follow it.
fn is_link(program: &Program) -> bool {
    let (Program::Host(host) | Program::Backed { host, .. }) = program else {
        return false;
    };
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    let found = crate::vfs::native::stat_at(AT_FDCWD, Path::of(host), AT_SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileKind::of_mode(found.st_mode) == Some(FileKind::Symlink))
}

/// prctl(2), seccomp(2): a filter may be coming.
pub fn confine(call: &mut Call) -> Outcome {
    const NEW_LISTENER: usize = 1 << 3;
    const TSYNC: usize = 1;
    if call.number == nr::PRCTL && call.args[0] as u32 == PR_SET_SECUREBITS {
        let answer = native(call);
        process::forget_credentials();
        return done(answer);
    }
    let Some(filter) = may_install(call) else {
        return Outcome::Forward;
    };
    let process = process::get();
    // Before the call: a filter may be every thread's from the moment it is there
    // (SECCOMP_FILTER_FLAG_TSYNC).
    crate::strangers::are_there();
    process.confine();
    let answer = native(call);
    // With that flag alone, the number of a thread that has another filter is a failure
    // (seccomp(2)).
    let of_all = call.number == nr::SECCOMP && call.args[1] & (TSYNC | NEW_LISTENER) == TSYNC;
    if answer.is_err() || of_all && answer != Ok(0) {
        crate::task::is_not_confined();
        return done(answer);
    }
    filter.installed(call.number == nr::SECCOMP && call.args[1] & TSYNC != 0);
    if let Some(child) = process::vfork_child() {
        child.filters.fetch_add(1, Relaxed);
    }
    done(answer)
}

/// The filter that `call` may install: programs ask with others, and with none given, what the
/// kernel knows (libseccomp, systemd, OpenSSH).
fn may_install(call: &Call) -> Option<Filter> {
    const PR_SET_SECCOMP: usize = 22;
    // SECCOMP_SET_MODE_STRICT and SECCOMP_SET_MODE_FILTER; of prctl they are larger by one
    // (include/uapi/linux/seccomp.h).
    const STRICT: u32 = 0;
    const FILTER: u32 = 1;
    let [first, second, third, ..] = call.args;
    let (mode, filter) = match call.number {
        nr::SECCOMP => (first as u32, third),
        _ if first as u32 as usize == PR_SET_SECCOMP => ((second as u32).wrapping_sub(1), third),
        _ => return None,
    };
    match mode {
        STRICT => Some(Filter::strict()),
        FILTER => Filter::read(filter),
        _ => None,
    }
}

/// umask(2)
pub fn umask(call: &mut Call) -> Outcome {
    process::limits::set_umask(call.args[0] as u32);
    Outcome::Forward
}

/// setrlimit(2), prlimit64(2): the limit of a file's length may change.
pub fn limits(call: &mut Call) -> Outcome {
    let answer = native(call);
    process::limits::forget_file_size();
    done(answer)
}

/// unshare(2)
pub fn unshare(call: &mut Call) -> Outcome {
    // CLONE_FS, and CLONE_NEWNS and CLONE_NEWUSER, which imply it (`ksys_unshare`, kernel/fork.c).
    const OWN_UMASK: usize = 0x200 | 0x2_0000 | 0x1000_0000;
    const CLONE_FILES: usize = 0x400;
    const CLONE_NEWUSER: usize = 0x1000_0000;
    if call.args[0] & OWN_UMASK != 0 {
        process::limits::split_umask();
    }
    let flags = call.args[0];
    let own_table = flags & CLONE_FILES != 0 && may_share_table();
    if !own_table && flags & CLONE_NEWUSER == 0 {
        return Outcome::Forward;
    }
    done(credentials::entering(flags, || match own_table {
        true => with_own_table(|| native(call)),
        false => native(call),
    }))
}

/// exit_group(2): what children that were not intercepted have written is not left to chance, and
/// what is open is closed.
pub fn exit_group(call: &mut Call) -> Outcome {
    // A filter that lets a program end may forbid the calls for this.
    if !crate::task::is_confined() {
        crate::looked_at::bring_all();
    }
    crate::paging::ends();
    if crate::ending::exits() {
        // Here, for no handler of the program's may find its descriptors gone.
        // SAFETY: the program's own call.
        unsafe { syscall::raw(call.number, call.args) };
    }
    Outcome::Forward
}

/// exit(2): that of the last thread ends the process.
pub fn exit(call: &mut Call) -> Outcome {
    let may_ask = process::vfork_child().is_none() && !crate::task::is_confined();
    match may_ask && culvert_intercept::is_last_thread() {
        true => exit_group(call),
        false => Outcome::Forward,
    }
}
