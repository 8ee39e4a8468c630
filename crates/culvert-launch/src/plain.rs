//! A plain launch, from the words to the execve of the program. What is not plain, or goes wrong,
//! changes nothing that lasts, and is for the whole command.

use crate::library_copy::{self, Found};
use crate::run_directory::{self, RunDirectory};
use crate::{directory, kept, mounts, path, program, stores, words};
use alloc::{ffi::CString, format, vec::Vec};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culvert::mount::Mount;
use culvert_drivers::Environment;
use culvert_preload::exec::limits::Limits;
use culvert_run::{OUTSIDE, files::c_string};
use culvert_sys::fd::CWD;
use culvert_sys::flags::{AtFlags, OFlags, Resolve};
use culvert_sys::raw::general::SIGXFSZ;
use culvert_sys::trust::{self, Opened};
use culvert_sys::{Errno, OwnedFd, fs, process};

/// `ST_RDONLY` and `ST_NOEXEC` (statfs(2)).
const ST_RDONLY: i64 = 1;
const ST_NOEXEC: i64 = 8;
/// `TMPFS_MAGIC` (include/uapi/linux/magic.h).
const TMPFS: i64 = 0x0102_1994;

/// Becomes the program that `arguments`, the command's own name first, say. Comes back only where
/// that is for the whole command, at `whole`, which libculvert.so lies beside.
pub fn launch(arguments: &[&CStr], environment: &[&CStr], whole: &[u8]) {
    let _ = try_launch(arguments, environment, whole);
    put_back();
}

fn try_launch(arguments: &[&CStr], environment: &[&CStr], whole: &[u8]) -> Option<()> {
    let words = words::plain(arguments)?;
    let environment = environment.iter().map(|entry| entry.to_bytes());
    let is_plain = |entry: &[u8]| {
        let name = entry.split(|&byte| byte == b'=').next();
        entry.iter().skip(1).any(|&byte| byte == b'=')
            && !matches!(name, Some(b"CULVERT_RUN" | b"LD_AUDIT" | b"CV_AUDIT" | b"LD_PRELOAD"))
            // Options of memory, which the whole command reads.
            && !entry.starts_with(b"CRUISE_")
    };
    // Under a filter the whole command tries first what is allowed.
    let is_confined = Limits::now().is_some() || process::is_filtered();
    if is_confined || !environment.clone().all(is_plain) {
        return None;
    }
    let (library, file) = library(whole)?;
    let (mut mounts, covers) = mounts::plain(words.mounts)?;
    // Root covers what is there, unless told not to.
    if covers && words.private != Some(false) && process::geteuid() == 0 {
        return None;
    }
    let targets: Vec<&[u8]> = mounts.iter().map(|mount| &mount.target[..]).collect();
    let search = environment
        .clone()
        .find_map(|entry| entry.strip_prefix(b"PATH="));
    let program = program::plain(arguments.get(words.program)?, search, &targets)?;

    prepare_for_files();
    let (base, opened) = base()?;
    let value = |name: &[u8]| {
        let mut entries = environment.clone();
        entries.find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
    };
    let cache = library_copy::cache(value(b"XDG_CACHE_HOME"), value(b"HOME"));
    let directories = value(b"XDG_RUNTIME_DIR")
        .into_iter()
        .chain(cache.as_deref());
    let found = library_copy::place(directories).map(|place| library_copy::find(&place, &file));
    let copy = match found {
        Some(Found::Copy(copy)) => Some(copy),
        Some(Found::Missing) => return None,
        Some(Found::Impossible) | None => None,
    };
    let name = clean(&base, &opened)?;
    let run = RunDirectory::make(&opened, &name, Some(whole)).ok();
    let run = run.or_else(|| {
        run_directory::remove(&opened, &name);
        None
    })?;
    let place = [&base[..], b"/", name.to_bytes()].concat();
    let done = serve(&mut mounts, &place)
        .and_then(|()| run_directory::write_mounts(&run.opened, &mounts, whole).ok());
    if done.is_some() {
        put_back();
        let audit = culvert_run::library_copy::entries(&library, copy.as_deref(), b"");
        // What is not intercepted itself stands in no mount.
        let variable = run_directory::variable(&place, run.lock.raw(), OUTSIDE);
        let variable = c_string([culvert_run::VARIABLE, b"=", &variable].concat());
        let given = environment.map(c_string);
        let audit = audit.into_iter().map(c_string);
        let given: Vec<_> = given.chain(audit).chain([variable]).collect();
        let given: Vec<&CStr> = given.iter().map(|entry| &entry[..]).collect();
        // It comes back only where it fails.
        process::execve(&program, arguments.get(words.program..)?, &given);
    }
    drop(run);
    run_directory::remove(&opened, &name);
    None
}

/// The library beside the whole command, if it can be loaded: its path, and open.
fn library(whole: &[u8]) -> Option<(Vec<u8>, OwnedFd)> {
    let library = [path::parent(whole), b"/libculvert.so"].concat();
    // The list that ld.so reads is separated by colons.
    if library.contains(&b':') {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = fs::openat2(CWD, &c_string(&library), flags, 0, Resolve::NO_SYMLINKS).ok()?;
    let system = fs::fstatfs(&file).ok()?;
    (system.f_flags as i64 & ST_NOEXEC == 0).then_some((library, file))
}

/// The usual base, open: this user's in shared memory. Other ones the whole command finds, and
/// makes.
fn base() -> Option<(Vec<u8>, Opened)> {
    // In a user namespace another number stands for this user.
    let map = culvert_run::read_file(c"/proc/self/uid_map").ok()?;
    let mut map = map
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let whole: [&[u8]; 3] = [b"0", b"0", b"4294967295"];
    if !whole.iter().all(|word| map.next() == Some(word)) {
        return None;
    }
    let base = format!("/dev/shm/culvert-{}", trust::user()).into_bytes();
    let opened = trust::directory(&c_string(&base), trust::user()).ok()?;
    let system = fs::fstatfs(&opened).ok()?;
    let flags = system.f_flags as i64;
    (system.f_type as i64 == TMPFS && flags & (ST_RDONLY | ST_NOEXEC) == 0)
        .then_some((base, opened))
}

/// Removes what earlier runs have left in `base`, and keeps others from doing so: a name for a new
/// run. None where that takes more: a run whose mapped files must be written back first, stores to
/// be removed, what is made once.
fn clean(base: &[u8], opened: &Opened) -> Option<CString> {
    let names = directory::entries(opened).ok()?;
    let has = |name: &CStr| names.iter().any(|entry| *entry.name == *name);
    if !has(c"sites") || !has(c"images") || !stores::are_tidy(opened, base) {
        return None;
    }
    let runs = run_directory::runs(&names);
    for run in &runs {
        let mappings = c_string([run.to_bytes(), b"/mappings"].concat());
        let found = fs::fstatat(opened, &mappings, AtFlags::SYMLINK_NOFOLLOW);
        if !matches!(found, Err(Errno::ENOENT)) && !kept::rests(opened, run) {
            return None;
        }
    }
    run_directory::sweep(opened, &runs, |run| {
        let mappings = c_string([run.to_bytes(), b"/mappings"].concat());
        fs::fstatat(opened, &mappings, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    });
    run_directory::keep_from_sweeping(opened).ok()?;
    Some(c_string(run_directory::identifier().ok()?))
}

/// Makes the sources of `mounts` ready for the run in `place`.
fn serve(mounts: &mut [Mount], place: &[u8]) -> Option<()> {
    let environment = Environment {
        run_directory: Some(place),
        ..Environment::default()
    };
    mounts.iter_mut().try_for_each(|mount| {
        let prepared = culvert_drivers::prepare(mount, &environment, &mut |_| {}).ok()?;
        *mount = prepared.mount;
        (prepared.warnings.total == 0).then_some(())
    })
}

/// What the program shall inherit and this process has changed: the umask, and whether SIGXFSZ was
/// ignored.
static UMASK: AtomicU32 = AtomicU32::new(NONE);
static IGNORED: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = u32::MAX;

/// Takes no right of the owner from new files, which this user's processes must be able to open;
/// and a write beyond RLIMIT_FSIZE is an error from here on.
fn prepare_for_files() {
    if let Ok(ignored) = process::set_ignored(SIGXFSZ, true) {
        IGNORED.store(ignored.into(), Relaxed);
    }
    const OWNER: u32 = 0o700;
    let before = process::umask(0o777);
    process::umask(before & !OWNER);
    UMASK.store(before, Relaxed);
}

/// What was changed is as it was: for the program, and for whoever takes over.
pub fn put_back() {
    match IGNORED.swap(NONE, Relaxed) {
        NONE => {}
        ignored => drop(process::set_ignored(SIGXFSZ, ignored != 0)),
    }
    match UMASK.swap(NONE, Relaxed) {
        NONE => {}
        before => drop(process::umask(before)),
    }
}
