//! Starting the engine.

use crate::{
    Call,
    config::{self, Config, config},
    delivery::{alternate, mask},
    descriptors,
    images::{self, Excerpt, Images, Key, Kind, Started, Store},
    interest, labels,
    patch::{self, Patched, Settings},
    signal::actions,
    thread,
};
use alloc::boxed::Box;
use core::ffi::CStr;
use culvert_sys::fd::AsFd;
use culvert_sys::flags::OFlags;
use culvert_sys::{BorrowedFd, Errno, OwnedFd, fs};

/// Why the engine does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kernel's reason.
    pub errno: Errno,
    /// What was attempted.
    pub what: &'static str,
}

/// Starts the engine: prepares this thread, installs the handlers for SIGSEGV, SIGBUS and SIGILL,
/// and patches everything that is mapped executable, ld.so included, the vDSO and the engine's own
/// object excluded. Code that is mapped later is patched before the program can run it.
///
/// The embedder's global allocator must not be the program's malloc: hooks allocate, also while the
/// program's allocator is locked for a fork.
///
/// # Safety
/// Once per process, by a thread that runs no code the patching changes, best before the program
/// has others.
pub unsafe fn install(config: Config) -> Result<(), Error> {
    if !has_gs_base() {
        return Err(Error {
            errno: Errno::EOPNOTSUPP,
            what: "the processor or kernel does not let programs set the GS base (FSGSBASE, Linux \
                5.9)",
        });
    }
    if thread::gs_base() != 0 {
        return Err(Error {
            errno: Errno::EBUSY,
            what: "the program uses the GS base itself",
        });
    }
    // SAFETY: no hook has run yet.
    unsafe { config::configure(config) };
    let block = thread::take_first();
    if !config.fresh {
        alternate::adopt_alternate_stack(block);
    }
    thread::set_gs_base(block.address());
    actions::install(config.fresh);
    if let (true, Some(directory)) = (config.patch, config.images) {
        begin_images(directory);
    }
    // SAFETY: the caller's promise.
    let started = config.fresh.then(|| unsafe { Started::find() }).flatten();
    let patched = match images::get().zip(started) {
        Some((images, started)) => start(images, &started),
        None => patch(0, usize::MAX),
    };
    if let (0, Some(what)) = (patched.objects, patched.failed) {
        // No call would be intercepted.
        let errno = Errno::ENOENT;
        return Err(Error { errno, what });
    }
    report(patched);
    Ok(())
}

/// Images are used from now on, those in `directory`.
fn begin_images(directory: &[u8]) {
    let name = interest::current().store();
    let excerpt = Excerpt::of(config().known_images).filter(|known| known.is_of(&name));
    let directory = [directory, b"/", name.as_bytes()].concat();
    let store = Store {
        directory: directory.leak(),
        site_tables: config().cache_directories,
        interest: |number| patch::wanted_number(interest::of, number),
        may_make: config().may_make_images,
    };
    let settings = settings();
    images::begin(
        store,
        [settings.entry, settings.descriptors, settings.numbers],
        excerpt.map(|excerpt| &*Box::leak(Box::new(excerpt))),
    );
}

const OWN_FILE: &CStr = c"/proc/self/exe";

/// Sees to the code of a program that has just been started: ld.so's image takes its place, and the
/// program, which as a rule makes no system call itself, is looked at once for all.
fn start(images: &Images, started: &Started) -> Patched {
    let mut all = Patched::default();
    let (program, to_program) = started.program;
    let first = images::first_page(program).unwrap_or_default();
    let said = images.said_of(first, config().said_of_program);
    let (from, to) = started.loader;
    let loader = said.and_then(|said| images.key(said.interpreter));
    let loader = loader.ok_or(Errno::ENOENT);
    let loader = loader.or_else(|_| fs::stat(started.interpreter).map(|found| Key::of(&found)));
    // SAFETY: this is ld.so, as `Started` has found it, and the only thread.
    let replaced = loader.and_then(|key| unsafe { images.replace(&key, from as u64) });
    match replaced {
        Ok(Kind::Image) => all.objects += 1,
        other => {
            all.add(patch(from, to - from));
            if other == Err(Errno::ENOENT) {
                let file = fs::open(started.interpreter, OFlags::CLOEXEC | OFlags::NONBLOCK, 0);
                // For later starts: it is only a matter of time.
                let _ = file.map(|file| images.store.make(file.as_fd()));
            }
        }
    }
    if said.is_some() {
        return all;
    }
    let known = |path: &CStr| images.kind_of(&Key::of(&fs::stat(path).ok()?), first);
    // By its name first: what lies in proc(5) is made for each process anew.
    let known = known(started.name).or_else(|| known(OWN_FILE));
    if known == Some(Kind::Nothing) {
        return all;
    }
    let patched = patch(program, to_program - program);
    if let (None, None) = (known, patched.failed) {
        let kind = match patched.sites == patched.skipped {
            true => Kind::Nothing,
            false => Kind::InPlace,
        };
        let file = fs::open(OWN_FILE, OFlags::CLOEXEC | OFlags::PATH, 0);
        let interpreter = started.interpreter.to_bytes();
        let remember = |file: OwnedFd| {
            let file = file.as_fd();
            images
                .store
                .remember_program(file, first, interpreter, kind)
        };
        let _ = file.map(remember);
    }
    all.add(patched);
    all
}

/// Says in the log what was not patched.
fn report(patched: Patched) {
    if let Some(reason) = patched.failed {
        (config().log)(reason.as_bytes());
    }
}

/// Patches what `start..start + length` touches.
fn patch(start: usize, length: usize) -> Patched {
    if !config().patch {
        return Patched::default();
    }
    // SAFETY: nobody runs the code. `install` runs in the only thread, in our own; and the system
    // call that has mapped it has not returned.
    unsafe { patch::range(&settings(), start, length) }
}

fn settings() -> Settings {
    Settings {
        entry: labels::entry(),
        interest: interest::of,
        numbers: interest::table() as usize,
        descriptors: descriptors::TABLE.0.as_ptr() as usize,
        own: labels::entry(),
        cache_directories: config().cache_directories,
    }
}

/// AT_HWCAP2 bit 1 (`HWCAP2_FSGSBASE`).
fn has_gs_base() -> bool {
    const AT_HWCAP2: usize = 26;
    culvert_sys::process::auxiliary(AT_HWCAP2).is_some_and(|value| value & 2 != 0)
}

/// The mmap of a file that the program makes: none when the caller makes it.
pub(crate) fn image_mapped(block: &thread::ThreadBlock, call: &Call) -> Option<isize> {
    // Under filters of the program's each call of ours may be its end.
    let images = images::get().filter(|_| !block.filters.is_some())?;
    match images.mmap(call) {
        images::Mapped::Done(start) => Some(start as isize),
        images::Mapped::Known => None,
        images::Mapped::Unknown => {
            // SAFETY: the program's own call.
            let result = unsafe { culvert_sys::syscall::raw(call.number, call.args) };
            if let Ok(start) = Errno::check(result) {
                code_mapped(start, call.args[1]);
                if !block.is_vfork_child() {
                    let file = BorrowedFd::number(call.args[4] as i32);
                    let _ = images.store.make(file);
                }
            }
            Some(result)
        }
    }
}

/// Patches what a handler itself has mapped executable.
pub fn code_mapped(start: usize, length: usize) {
    report(patch(start, length));
}

/// To be called inside a hook right before an execve that replaces the program: makes real in the
/// kernel what the engine keeps virtual (SIG_IGN and blocking of SIGSEGV, SIGBUS and SIGILL).
///
/// The execve itself goes through [`wait::interruptible`](crate::wait::interruptible): once a
/// signal is pending all are blocked, and the new program would inherit that. After
/// [`Interrupted`](crate::wait::Interrupted) the handler calls [`exec_failed`] and returns
/// [`Outcome::Restart`](crate::Outcome::Restart), which for an exec never ends in EINTR.
pub fn before_exec() {
    let block = thread::current();
    actions::before_exec(block.actions());
    mask::before_exec(block);
}

/// To be called when that execve has failed: undoes [`before_exec`].
pub fn exec_failed() {
    let block = thread::current();
    mask::exec_failed(block);
    actions::exec_failed(block.actions());
}
