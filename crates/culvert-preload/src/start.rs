//! Start-up in a fresh program: from its environment to its run and the engine.

mod carried;
pub mod emulated;
mod environment;
mod lost;
pub mod other_user;

pub use environment::Environment;

use crate::descriptors::{handed, saved};
use crate::exec::{NO_RUN, Why, static_tls};
use crate::process::{self, Process};
use crate::{dispatch, fuse_server, lifecycle, notice};
use alloc::{boxed::Box, format, string::String, vec::Vec};
use carried::Carried;
use culvert::{Errno, mount::Mount};
use culvert_intercept::{Config, images::Excerpt};
use culvert_run::{INHERITED, LOCKS, NO_PATCH, SHARED_DIRECTORY, files::c_string, stat_path};
use culvert_sys::BorrowedFd;
use environment::Variable;
use lost::{Lost, lose_mounts};

/// Joins the run that the environment names, if any: reads its mounts and starts the engine. A
/// program that was promised them and cannot have them ends here, with status 125; one that was not
/// goes on without, and its user is told.
///
/// `is_copy`: this is a copy of the library, which lies at its address.
///
/// # Safety
/// Once per process, by its only thread, before the program's own code runs.
pub unsafe fn start(mut environment: Environment, is_copy: bool) {
    let copy = environment.take_copy().filter(|_| is_copy);
    let Some(value) = environment.get(Variable::Run) else {
        return;
    };
    let value = value.to_vec();
    if emulated::by_valgrind() {
        // The variables stay: what the program executes is in the mounts again.
        if let Some(carried) = Carried::of(&value) {
            environment.open_log(carried.log);
        }
        let why = Why::Valgrind;
        lose_mounts(Carried::of(&value).as_ref(), why.reason(), why.remedy());
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
    let library = [environment.take_library(), copy.unwrap_or_default()];
    let Some(carried) = Carried::of(&value) else {
        // Of another version, perhaps: one that was installed while the run goes on.
        let reason = "what CULVERT_RUN says cannot be read";
        let remedy = "start it again with `culvert run` of the version that is installed";
        lose_mounts(None, reason, remedy);
        return;
    };
    environment.open_log(carried.log);
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

/// The type of /proc (statfs(2)).
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// # Safety
/// As [`start`]; `fresh`: no code that sets signal handlers has run.
unsafe fn join(carried: &Carried<'_>, library: [Vec<u8>; 2], fresh: bool) -> Result<(), Lost> {
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
    if carried.flags & INHERITED == 0 {
        handed::nothing_inherited();
    }
    if carried.flags & SHARED_DIRECTORY != 0 {
        culvert_run::task::limits::umask_is_shared();
    }
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
fn enter(carried: &Carried<'_>, library: [Vec<u8>; 2]) -> Result<Process, Lost> {
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
