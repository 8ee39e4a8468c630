//! Start-up in a fresh program.

mod emulated;
pub mod other_user;

use crate::descriptors::{handed, saved};
use crate::exec::{NO_RUN, Why, static_tls, tunables};
use crate::process::{self, Process};
use crate::vfs::own_file::{self, OwnFile};
use crate::{dispatch, fuse_server, lifecycle, notice};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use culvert::{Errno, Node, mount::Mount};
use culvert_cache::State;
use culvert_intercept::{Config, images::Excerpt};
use culvert_mounts::MountId;
use culvert_run::{
    LOCKS, NO_PATCH, Refusal, Run, ShadowName, VARIABLE, files::c_string, stat_path,
};
use culvert_sys::BorrowedFd;
use culvert_sys::log;
use culvert_sys::raw::general::S_IFREG;
use culvert_sys::trust::{self, Why as Distrust};

/// What `CULVERT_RUN` says.
struct Carried<'a> {
    directory: &'a [u8],
    lock_descriptor: i32,
    /// Nodes that this program would not find ([`handed`]), with their mounts.
    handed: Vec<(u16, i32)>,
    /// What open files have saved ([`saved`]).
    saved: Option<i32>,
    /// What stands for locks of nodes.
    lock_files: Vec<(ShadowName, i32)>,
    /// Of the program ([`Config::said_of_program`]).
    said: Option<u64>,
    /// The mount that the root directory is on.
    root: Option<MountId>,
    flags: u8,
    log: Option<&'a [u8]>,
}

/// Reads `<directory>:<lock descriptor>[,<descriptor of a node>.<its
/// mount>]...[,s<descriptor>][,l<descriptor>.<mount>.<node>]...[,p<number>][,r<mount>]:<flags>[:<log
/// file>]`.
fn carried(value: &[u8]) -> Option<Carried<'_>> {
    let mut parts = value.splitn(4, |&b| b == b':');
    let directory = parts.next()?;
    let mut numbers = core::str::from_utf8(parts.next()?).ok()?.split(',');
    let flags = core::str::from_utf8(parts.next()?).ok()?;
    let lock_descriptor = numbers.next()?.parse().ok()?;
    let (mut handed, mut saved, mut said, mut root) = (Vec::new(), None, None, None);
    let mut lock_files = Vec::new();
    for one in numbers {
        match one.split_at_checked(1)? {
            ("s", number) => saved = Some(number.parse().ok()?),
            ("l", file) => {
                let mut parts = file.split('.');
                let number = parts.next()?.parse().ok()?;
                let mount = MountId(parts.next()?.parse().ok()?);
                let node = Node(u64::from_str_radix(parts.next()?, 16).ok()?);
                lock_files.push((ShadowName { mount, node }, number));
            }
            ("p", number) => said = Some(u64::from_str_radix(number, 16).ok()?),
            ("r", mount) => root = Some(MountId(mount.parse().ok()?)),
            _ => {
                let (number, mount) = one.split_once('.')?;
                handed.push((mount.parse().ok()?, number.parse().ok()?));
            }
        }
    }
    Some(Carried {
        directory,
        lock_descriptor,
        handed,
        saved,
        lock_files,
        said,
        root,
        flags: flags.parse().ok()?,
        log: parts.next(),
    })
}

/// A variable that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variable {
    Run,
    Log,
    Given,
    Shown,
    Tunables,
    Audit,
    Preload,
}

impl Variable {
    const ALL: [Self; 7] = [
        Self::Run,
        Self::Log,
        Self::Given,
        Self::Shown,
        Self::Tunables,
        Self::Audit,
        Self::Preload,
    ];

    fn name(self) -> &'static [u8] {
        match self {
            Self::Run => VARIABLE,
            Self::Log => b"CULVERT_LOG",
            Self::Given => own_file::GIVEN,
            Self::Shown => own_file::SHOWN,
            Self::Tunables => b"GLIBC_TUNABLES",
            Self::Audit => b"LD_AUDIT",
            Self::Preload => b"LD_PRELOAD",
        }
    }

    /// That which `entry` sets.
    ///
    /// # Safety
    /// `entry` is a string that ends in NUL.
    unsafe fn of(entry: *const u8) -> Option<Self> {
        // SAFETY: the caller's promise.
        let first = unsafe { *entry };
        let may_be = |variable: &Self| variable.name().first() == Some(&first);
        // SAFETY: the caller's promise.
        let is_set = |variable: &Self| unsafe { has_name(variable.name(), entry) };
        let mut all = Self::ALL.into_iter().filter(may_be);
        all.find(is_set)
    }
}

/// The program's environment: a NULL-terminated array of strings on its stack, which is read once.
pub struct Environment {
    array: *mut *mut u8,
    /// Where each variable is set, first if more than once.
    at: [Option<usize>; Variable::ALL.len()],
    /// The auxiliary vector, which lies behind it.
    vector: *const [usize; 2],
}

impl Environment {
    /// # Safety
    /// `array` is the program's environment, ends in a null pointer, and nobody else uses it
    /// meanwhile.
    pub unsafe fn new(array: *mut *mut u8) -> Self {
        let mut at = [None; Variable::ALL.len()];
        let mut length = 0;
        // SAFETY: the array ends in a null pointer; each entry before is a string.
        unsafe {
            while !(*array.add(length)).is_null() {
                if let Some(variable) = Variable::of(*array.add(length)) {
                    at[variable as usize].get_or_insert(length);
                }
                length += 1;
            }
        }
        Self {
            array,
            at,
            vector: array.wrapping_add(length + 1).cast(),
        }
    }

    fn get(&self, variable: Variable) -> Option<&[u8]> {
        let at = self.at[variable as usize]?;
        // SAFETY: the entry is a string that ends in NUL, begins with the name and `=`, and stays.
        let value = unsafe {
            let value = (*self.array.add(at)).add(variable.name().len() + 1);
            core::ffi::CStr::from_ptr(value.cast())
        };
        Some(value.to_bytes())
    }

    /// What the auxiliary vector says of `kind` (getauxval(3)).
    fn auxiliary(&self, kind: usize) -> Option<usize> {
        // SAFETY: the kernel puts the vector there (`create_elf_tables`, fs/binfmt_elf.c), pairs of
        // which AT_NULL is the last.
        unsafe { culvert_sys::process::find_auxiliary(self.vector, kind) }
    }

    /// Whether no code ran in this process before that which could have set a signal's handler: the
    /// kernel has started the program's ld.so, which loads the first library of `LD_AUDIT`, ours.
    fn is_fresh(&self) -> bool {
        const AT_BASE: usize = 7;
        // Where ld.so itself was executed, its options may name other auditors.
        let has_interpreter = self.auxiliary(AT_BASE).is_some_and(|base| base != 0);
        has_interpreter && self.get(Variable::Audit).map(first_of).is_some_and(is_own)
    }

    /// Takes the entry of `variable` out.
    fn remove(&mut self, variable: Variable) {
        let Some(index) = self.at[variable as usize].take() else {
            return;
        };
        let mut i = index;
        // SAFETY: the array ends in a null pointer, at which this stops.
        unsafe {
            while !(*self.array.add(i)).is_null() {
                *self.array.add(i) = *self.array.add(i + 1);
                i += 1;
            }
        }
        let behind = self.at.iter_mut().flatten().filter(|at| **at > index);
        behind.for_each(|at| *at -= 1);
    }

    /// Opens the log that the program or the run names.
    fn open_log(&self, carried: &Carried<'_>) {
        if let Some(path) = self.get(Variable::Log).or(carried.log) {
            log::open(path);
        }
    }

    /// Takes what the exec hook has added to GLIBC_TUNABLES out again, and says how many bytes of
    /// static TLS it gave.
    fn hide_room(&mut self) -> u64 {
        let given = self.get(Variable::Tunables).and_then(tunables::given);
        let Some(((own, bytes), at)) = given.zip(self.at[Variable::Tunables as usize]) else {
            return 0;
        };
        match own {
            None => self.remove(Variable::Tunables),
            Some(own) => {
                let value_at = Variable::Tunables.name().len() + 1;
                // SAFETY: the entry's value has more than `own` bytes, and nobody else uses it.
                unsafe { *(*self.array.add(at)).add(value_at + own) = 0 }
            }
        }
        bytes
    }

    /// Takes what the exec hook tells the program about its own file.
    fn take_own_file(&mut self) -> Option<OwnFile> {
        let mut take = |variable| {
            let value = self.get(variable)?.to_vec();
            self.remove(variable);
            Some(value)
        };
        let own = OwnFile {
            given: take(Variable::Given),
            shown: take(Variable::Shown),
        };
        (own.given.is_some() || own.shown.is_some()).then_some(own)
    }

    /// Lets the entry of `variable` begin `bytes` later.
    fn skip(&mut self, variable: Variable, bytes: usize) {
        let name = variable.name();
        let Some(index) = self.at[variable as usize] else {
            return;
        };
        // SAFETY: the entry is `name=` and at least `bytes` more; the name is written over what is
        // skipped.
        unsafe {
            let entry = *self.array.add(index);
            let moved = entry.add(bytes);
            core::ptr::copy(name.as_ptr(), moved, name.len());
            *moved.add(name.len()) = b'=';
            *self.array.add(index) = moved;
        }
    }
}

/// Whether the environment's `entry` has this `name`. Not the whole string is read: only few are
/// looked for, among many that may be long.
///
/// # Safety
/// `entry` is a string that ends in NUL.
unsafe fn has_name(name: &[u8], entry: *const u8) -> bool {
    // SAFETY: the NUL, if there is one, is none of the name's bytes.
    let is_there = |(i, byte): (usize, &u8)| unsafe { *entry.add(i) == *byte };
    name.iter().chain(b"=").enumerate().all(is_there)
}

/// The first of a list of libraries.
fn first_of(list: &[u8]) -> &[u8] {
    list.split(|&b| b == b':').next().unwrap_or(list)
}

/// Whether a list names this library there.
fn is_own(library: &[u8]) -> bool {
    library.ends_with(b"/libculvert.so")
}

/// Joins the run that the environment names, if any: reads its mounts and starts the engine. A
/// program that was promised them and cannot have them ends here, with status 125; one that was not
/// goes on without, and its user is told.
///
/// # Safety
/// Once per process, by its only thread, before the program's own code runs.
pub unsafe fn start(mut environment: Environment) {
    let Some(value) = environment.get(Variable::Run) else {
        return;
    };
    let value = value.to_vec();
    if emulated::by_valgrind() {
        // The variables stay: what the program executes is in the mounts again.
        if let Some(carried) = carried(&value) {
            environment.open_log(&carried);
        }
        let why = Why::Valgrind;
        lose_mounts(carried(&value).as_ref(), why.reason(), why.remedy());
        return;
    }
    let fresh = environment.is_fresh();
    // SAFETY: until the end of this function nobody else runs.
    let _auxiliary = unsafe { culvert_sys::process::Auxiliary::at(environment.vector) };
    environment.remove(Variable::Run);
    let given = environment.hide_room();
    if let Some(own) = environment.take_own_file() {
        // SAFETY: the caller's promise.
        unsafe { own.begin(environment.array) };
    }
    let mut library = Vec::new();
    for variable in [Variable::Audit, Variable::Preload] {
        let Some(list) = environment.get(variable) else {
            continue;
        };
        let first = first_of(list).to_vec();
        if !is_own(&first) {
            continue;
        }
        if list.len() == first.len() {
            environment.remove(variable);
        } else {
            environment.skip(variable, first.len() + 1);
        }
        library = first;
    }
    let Some(carried) = carried(&value) else {
        // Of another version, perhaps: one that was installed while the run goes on.
        let reason = "what CULVERT_RUN says cannot be read";
        let remedy = "start it again with `culvert run` of the version that is installed";
        lose_mounts(None, reason, remedy);
        return;
    };
    environment.open_log(&carried);
    // SAFETY: the caller's promise.
    match unsafe { join(&carried, library, fresh) } {
        Ok(()) => static_tls::begin(environment.array as usize, given),
        Err(lost) if lost.is_promised(&carried) => {
            culvert_sys::log!("not started: {}", lost.reason);
            let own = culvert_run::read_link(c"/proc/self/exe");
            let program = own.as_deref().unwrap_or(b"this program");
            notice::end_without_mounts(program, &format!("{}; {}", lost.reason, lost.remedy()));
        }
        Err(lost) => {
            let (lock, flags) = (carried.lock_descriptor, carried.flags);
            if let Some(errno) = other_user::start_again(lock, flags, &environment) {
                culvert_sys::log!("it cannot be started again for its own user: {errno}");
            }
            lose_mounts(Some(&carried), &lost.reason, NO_RUN);
        }
    }
}

/// Whether the file that is open in `fd`, with this `struct stat`, has a name here: so its
/// directory was moved.
fn is_reachable(fd: i32, found: &culvert_sys::raw::general::stat) -> bool {
    let named = culvert_run::descriptor_path(fd).and_then(|path| stat_path(&c_string(&path)));
    named.is_ok_and(|named| (named.st_dev, named.st_ino) == (found.st_dev, found.st_ino))
}

/// The type of /proc (statfs(2)).
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// Why a program does not join its run.
struct Lost {
    /// In words.
    reason: String,
    /// What the kernel says, where it is the kernel.
    errno: Option<Errno>,
    /// That the run's directory is not to be believed, or not to be found.
    distrust: Option<Distrust>,
}

impl From<Refusal> for Lost {
    fn from(refusal: Refusal) -> Self {
        let reason = format!("{refusal}");
        let (errno, distrust) = match refusal {
            Refusal::Directory(why) => (Some(why.errno()), Some(why)),
            Refusal::Mounts(Distrust::Failed(errno)) | Refusal::Mount(errno) => (Some(errno), None),
            Refusal::Mounts(why) => (None, Some(why)),
        };
        Self {
            reason,
            errno,
            distrust,
        }
    }
}

impl Lost {
    fn because(what: &str, errno: Errno) -> Self {
        Self {
            reason: format!("{what}: {errno}"),
            errno: Some(errno),
            distrust: None,
        }
    }

    /// Whether the program was promised the mounts of `carried`, so that it must not run without
    /// them: unless the run is another user's, or its directory is there and not to be found from
    /// here, in a sandbox or below another root. The descriptor of its lock, which was inherited,
    /// tells.
    fn is_promised(&self, carried: &Carried<'_>) -> bool {
        // It would take the machine's files for those below its root.
        let Some(why) = self.distrust.filter(|_| carried.root.is_none()) else {
            return true;
        };
        let lock = match culvert_run::stat_descriptor(carried.lock_descriptor) {
            Ok(lock) => lock,
            // A filter keeps us from looking.
            Err(errno) => return errno != Errno::EBADF,
        };
        // A filter may keep the user from us.
        let user = [lock.st_uid, u32::MAX].contains(&trust::user());
        let ours = lock.st_mode & 0o170000 == S_IFREG && user;
        let elsewhere = matches!(
            why,
            Distrust::Failed(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES)
        );
        ours && !(elsewhere && lock.st_nlink != 0 && !is_reachable(carried.lock_descriptor, &lock))
    }

    /// What the user can do.
    fn remedy(&self) -> &'static str {
        match self.errno {
            Some(Errno::EMFILE) => "let it open more files (ulimit -n)",
            Some(Errno::ENFILE) => "let the system open more files (fs.file-max)",
            Some(Errno::ENOMEM) => "let it have more memory (ulimit -v, ulimit -d)",
            Some(Errno::ENOENT) => "start it again with `culvert run`",
            _ => "`culvert doctor` says what is needed",
        }
    }
}

/// This program does not see the mounts of `carried`, for `reason`: its user is told, with a
/// `remedy`.
fn lose_mounts(carried: Option<&Carried<'_>>, reason: &str, remedy: &str) {
    culvert_sys::log!("this program does not see the mounts: {reason}; {remedy}");
    let own = culvert_run::read_link(c"/proc/self/exe");
    let program = own.as_deref().unwrap_or(b"this program");
    let run = carried.map(|carried| carried.directory);
    // Nothing is made in a directory that is not ours.
    let run = run.filter(|run| Run::open(run).is_ok());
    if let Some(carried) = carried {
        refuse_to_read_nothing(carried.directory, reason);
    }
    notice::say(run, program, reason, remedy);
}

/// Ends the program with status 125 when it has inherited a file of a mount that it could only read
/// as an empty one: without the engine a shadow that was not filled says nothing, and a wrong
/// answer is worse than none.
fn refuse_to_read_nothing(run: &[u8], reason: &str) {
    let base = &run[..run.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
    let unreadable = |fd: &i32| {
        let below = |path: &[u8]| {
            path.strip_prefix(base)
                .is_some_and(|rest| rest.windows(9).any(|part| part == b"/shadows/"))
        };
        let shadow = culvert_run::descriptor_path(*fd).is_ok_and(|path| below(&path));
        shadow && culvert_run::stat_descriptor(*fd).is_ok_and(|found| !State::of(&found).has_all())
    };
    let Some(fd) = culvert_run::files::open_descriptors()
        .into_iter()
        .find(unreadable)
    else {
        return;
    };
    let message = format!(
        "culvert: descriptor {fd} is a file on a mount, which this program cannot read: {reason}\n"
    );
    let _ = culvert_sys::fs::write(BorrowedFd::number(2), message.as_bytes());
    culvert_sys::process::exit_group(125)
}

/// # Safety
/// As [`start`]; `fresh`: no code that sets signal handlers has run.
unsafe fn join(carried: &Carried<'_>, library: Vec<u8>, fresh: bool) -> Result<(), Lost> {
    process::set(enter(carried, library)?);
    process::get().run.hide_internal();
    if let Some(root) = carried.root {
        let entered = process::get().enter_root(root);
        entered.map_err(|errno| Lost::because("its root directory is not there", errno))?;
    }
    if carried.flags & LOCKS != 0 {
        process::get().run.posix_locks.expect_inherited();
    }
    fuse_server::begin(process::get().run, carried.flags)
        .map_err(|errno| Lost::because("the slots for a FUSE server cannot be used", errno))?;
    carried.handed.iter().copied().for_each(handed::receive);
    carried.saved.into_iter().for_each(saved::receive);
    for &(name, descriptor) in &carried.lock_files {
        process::get()
            .run
            .posix_locks
            .files
            .receive(name, descriptor);
    }
    let config = Config {
        handler: dispatch::dispatch,
        interests: dispatch::interests(process::get().targets_exist),
        fork: lifecycle::fork::HOOKS,
        fresh,
        patch: process::get().flags & NO_PATCH == 0,
        cache_directories: Box::leak(Box::new([&*process::get().run.site_tables().leak()])),
        images: Some(process::get().run.images().leak()),
        known_images: process::get().run.images_known,
        said_of_program: carried.said,
        may_make_images: || process::get().run.may_make_images(),
        log: |line| culvert_sys::log!("{}", String::from_utf8_lossy(line)),
    };
    if !has_proc() {
        return Err(Lost::because(
            "/proc/self/maps cannot be read",
            Errno::ENOENT,
        ));
    }
    // SAFETY: the caller's promise.
    unsafe { culvert_intercept::install(config) }
        .map_err(|error| Lost::because(error.what, error.errno))
}

/// Whether there is a /proc, without which neither code nor descriptors are found. A filter may
/// keep us from looking. A name of the process's own there would cost some 20 us.
fn has_proc() -> bool {
    match culvert_sys::fs::statfs(c"/proc") {
        Ok(found) => found.f_type == PROC_SUPER_MAGIC,
        Err(errno) => errno != Errno::ENOENT,
    }
}

/// The state of a process of the run that `carried` names: reads the run's mounts.
fn enter(carried: &Carried<'_>, library: Vec<u8>) -> Result<Process, Lost> {
    let interrupted = Some(culvert_intercept::wait::pending as fn() -> bool);
    let mut targets = process::Targets::default();
    let (directory, lock) = (carried.directory, carried.lock_descriptor);
    let run = culvert_run::enter(directory, lock, interrupted, |mount, target| {
        targets.exist |= target.is_some();
        targets.missing |= target.is_none();
        targets.open |= target.is_some_and(|found| {
            !(found.may_be_root && is_covered(&mount.target, found.identity.0))
        });
    })?;
    Ok(Process::new(run, library, carried.flags, targets))
}

/// What is known of the images that a run with these `mounts` will use, for its state
/// ([`culvert_run::state`]): `directory` is the run's.
pub fn known_images(directory: BorrowedFd<'_>, mounts: &[Mount]) -> Vec<u8> {
    let is_there = |mount: &Mount| {
        !culvert_drivers::binding::is_bound(mount)
            && stat_path(&c_string(&mount.target[..])).is_ok()
    };
    // Another answer than that of a process means another store, which that one does not use.
    let interests = dispatch::interests(mounts.iter().any(is_there));
    Excerpt::take(directory, "../images", &interests.store())
}

/// Whether the directory `target`, on `device`, is the root of a mount of the kernel's (`culvert
/// run --private`, and by default as root).
fn is_covered(target: &[u8], device: u64) -> bool {
    let parent = &target[..target.iter().rposition(|&b| b == b'/').unwrap_or(0).max(1)];
    stat_path(&c_string(parent)).is_ok_and(|found| found.st_dev != device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    /// An environment and the vector behind it, as the kernel puts them on the stack.
    fn on_stack(entries: &[&CStr], base: usize) -> Vec<usize> {
        let entries = entries.iter().map(|entry| entry.as_ptr() as usize);
        let vector = [6, 4096, 7, base, 0, 0];
        entries.chain([0]).chain(vector).collect()
    }

    #[test]
    fn handlers_are_looked_for_unless_ours_is_the_first_code_that_runs() {
        let is_fresh = |entries: &[&CStr], base| {
            let mut stack = on_stack(entries, base);
            // SAFETY: an array as it is on the stack, of strings that are constant.
            unsafe { Environment::new(stack.as_mut_ptr().cast()) }.is_fresh()
        };
        assert!(is_fresh(&[c"A=1", c"LD_AUDIT=/a/libculvert.so"], 4096));
        assert!(is_fresh(&[c"LD_AUDIT=/a/libculvert.so:/other.so"], 4096));
        assert!(!is_fresh(&[c"LD_AUDIT=/other.so:/a/libculvert.so"], 4096));
        assert!(!is_fresh(
            &[c"LD_AUDIT=/other.so", c"LD_AUDIT=/a/libculvert.so"],
            4096
        ));
        assert!(!is_fresh(&[c"LD_PRELOAD=/a/libculvert.so"], 4096));
        assert!(
            !is_fresh(&[c"LD_AUDIT=/a/libculvert.so"], 0),
            "ld.so was executed"
        );
        assert!(!is_fresh(&[], 4096));
    }

    #[test]
    fn an_entry_is_found_by_its_whole_name() {
        let mut stack = on_stack(&[c"CULVERT", c"CULVERT_RUNS=1", c"CULVERT_RUN=2", c""], 0);
        // SAFETY: an array as it is on the stack, of strings that are constant.
        let environment = unsafe { Environment::new(stack.as_mut_ptr().cast()) };
        assert_eq!(environment.get(Variable::Run), Some(&b"2"[..]));
        assert_eq!(environment.at[Variable::Run as usize], Some(2));
        assert_eq!(environment.get(Variable::Log), None);
    }

    #[test]
    fn the_variable_is_read_strictly() {
        assert!(
            carried(b"/run/x:1020:0").is_some_and(|c| c.directory == b"/run/x"
                && c.lock_descriptor == 1020
                && c.handed.is_empty()
                && c.flags == 0
                && c.log.is_none())
        );
        assert!(
            carried(b"/run/x:-1:1:/tmp/a:b")
                .is_some_and(|c| c.flags == culvert_run::STRICT && c.log == Some(b"/tmp/a:b"))
        );
        assert!(
            carried(b"/run/x:1020,1018.0,7.2:0").is_some_and(|c| c.handed == [(0, 1018), (2, 7)])
        );
        assert!(
            carried(b"/run/x:1020,7.2,s9:0")
                .is_some_and(|c| c.handed == [(2, 7)] && c.saved == Some(9))
        );
        assert!(carried(b"/run/x:1020,pfe:0").is_some_and(|c| c.said == Some(0xfe)));
        for bad in [
            &b""[..],
            b"/run/x:1,:0",
            b"/run/x:1,7:0",
            b"/run/x:1,s:0",
            b"/run/x",
            b"/run/x:",
            b"/run/x:a:0",
            b"/run/x:1",
        ] {
            assert!(carried(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_environment_is_shortened_in_place() {
        let mut strings: Vec<Vec<u8>> = [
            "A=1",
            "CULVERT_RUN=x",
            "LD_AUDIT=/a/libculvert.so:/other.so",
            "B=2",
        ]
        .iter()
        .map(|s| [s.as_bytes(), b"\0"].concat())
        .collect();
        let mut array: Vec<*mut u8> = strings
            .iter_mut()
            .map(|s| s.as_mut_ptr())
            .chain([core::ptr::null_mut()])
            .collect();
        // SAFETY: the array is NULL-terminated and ours.
        let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
        environment.remove(Variable::Run);
        assert!(environment.get(Variable::Run).is_none());
        let value = environment.get(Variable::Audit);
        assert_eq!(value, Some(&b"/a/libculvert.so:/other.so"[..]));
        environment.skip(Variable::Audit, "/a/libculvert.so:".len());
        assert_eq!(environment.get(Variable::Audit), Some(&b"/other.so"[..]));
        let left: Vec<Vec<u8>> = array
            .iter()
            .take_while(|entry| !entry.is_null())
            // SAFETY: a string of the above, shortened in place.
            .map(|entry| unsafe { CStr::from_ptr(entry.cast()) }.to_bytes().to_vec())
            .collect();
        assert_eq!(left, [&b"A=1"[..], b"LD_AUDIT=/other.so", b"B=2"]);
    }

    #[test]
    fn tunables_that_were_added_are_hidden() {
        for own in [None, Some(&b""[..]), Some(b"glibc.malloc.check=3")] {
            let mut strings = [tunables::entry(own, 4096), b"B=2\0".to_vec()];
            let mut array: Vec<*mut u8> = strings
                .iter_mut()
                .map(|s| s.as_mut_ptr())
                .chain([core::ptr::null_mut()])
                .collect();
            // SAFETY: the array is NULL-terminated and ours.
            let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
            assert_eq!(environment.hide_room(), 4096);
            assert_eq!(environment.get(Variable::Tunables), own);
            assert_eq!(environment.hide_room(), 0);
            assert!(array.contains(&strings[1].as_mut_ptr()));
        }
    }
}
