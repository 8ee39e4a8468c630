//! Start-up in a fresh program.

use crate::log;
use crate::process::{self, Process};
use crate::resolver::MountTable;
use crate::run::{Run, VARIABLE, stat_path};
use crate::{calls, table};
use crate::memory::c_string;
use alloc::{boxed::Box, format, string::String, vec::Vec};
use culvert::Errno;
use culvert_intercept::Config;

/// What `CULVERT_RUN` says.
struct Carried<'a> {
    directory: &'a [u8],
    lock_descriptor: i32,
    strict: bool,
    log: Option<&'a [u8]>,
}

/// Reads `<directory>:<lock descriptor>:<strict>[:<log file>]`.
fn carried(value: &[u8]) -> Option<Carried<'_>> {
    let mut parts = value.splitn(4, |&b| b == b':');
    let directory = parts.next()?;
    let number = core::str::from_utf8(parts.next()?).ok()?;
    let strict = parts.next()? == b"1";
    Some(Carried { directory, lock_descriptor: number.parse().ok()?, strict, log: parts.next() })
}

/// The program's environment: a NULL-terminated array of strings on its stack.
pub struct Environment(*mut *mut u8);

impl Environment {
    /// # Safety
    /// `array` is the program's environment, ends in a null pointer, and nobody else uses it meanwhile.
    pub unsafe fn new(array: *mut *mut u8) -> Self {
        Self(array)
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..).map_while(|i| {
            // SAFETY: the array ends in a null pointer, each string before it in NUL.
            unsafe {
                let entry = *self.0.add(i);
                (!entry.is_null()).then(|| (i, core::ffi::CStr::from_ptr(entry.cast()).to_bytes()))
            }
        })
    }

    fn get(&self, name: &[u8]) -> Option<(usize, &[u8])> {
        self.entries().find_map(|(i, entry)| Some((i, entry.strip_prefix(name)?.strip_prefix(b"=")?)))
    }

    /// Takes entry `index` out.
    fn remove(&mut self, index: usize) {
        let mut i = index;
        // SAFETY: the array ends in a null pointer, at which this stops.
        unsafe {
            while !(*self.0.add(i)).is_null() {
                *self.0.add(i) = *self.0.add(i + 1);
                i += 1;
            }
        }
    }

    /// Lets entry `index` begin `bytes` later.
    fn skip(&mut self, index: usize, name: &[u8], bytes: usize) {
        // SAFETY: the entry is `name=` and at least `bytes` more; the name is written over what is skipped.
        unsafe {
            let entry = *self.0.add(index);
            let moved = entry.add(bytes);
            core::ptr::copy(name.as_ptr(), moved, name.len());
            *moved.add(name.len()) = b'=';
            *self.0.add(index) = moved;
        }
    }
}

/// Joins the run that the environment names, if any: reads its mounts and starts the engine. Whatever goes wrong, the program goes on,
/// without mounts; the log says why.
///
/// # Safety
/// Once per process, by its only thread, before the program's own code runs.
pub unsafe fn start(mut environment: Environment) {
    let Some((index, value)) = environment.get(VARIABLE) else { return };
    let value = value.to_vec();
    environment.remove(index);
    let mut library = Vec::new();
    for name in [&b"LD_AUDIT"[..], b"LD_PRELOAD"] {
        let Some((index, list)) = environment.get(name) else { continue };
        let first = list.split(|&b| b == b':').next().unwrap_or(list).to_vec();
        if !first.ends_with(b"/libculvert.so") {
            continue;
        }
        if list.len() == first.len() {
            environment.remove(index);
        } else {
            environment.skip(index, name, first.len() + 1);
        }
        library = first;
    }
    let Some(carried) = carried(&value) else { return };
    if let Some(path) = environment.get(b"CULVERT_LOG").map(|(_, path)| path).or(carried.log) {
        log::open(path);
    }
    // SAFETY: the caller's promise.
    if let Err(reason) = unsafe { join(&carried, library) } {
        crate::log!("not intercepted: {reason}");
    }
}

/// # Safety
/// As [`start`].
unsafe fn join(carried: &Carried<'_>, library: Vec<u8>) -> Result<(), String> {
    process::set(enter(carried.directory, carried.lock_descriptor, library, carried.strict)?);
    let config = Config {
        handler: table::dispatch,
        interest: table::interest,
        fork: calls::process::FORK_HOOKS,
        patch: true,
        cache_directories: &[],
        log: |line| crate::log!("{}", String::from_utf8_lossy(line)),
    };
    // SAFETY: the caller's promise.
    unsafe { culvert_intercept::install(config) }.map_err(|error| format!("{}: {}", error.what, error.errno))
}

/// The state of a process in the run of `directory`: reads the run's mounts.
fn enter(directory: &[u8], lock_descriptor: i32, library: Vec<u8>, strict: bool) -> Result<Process, String> {
    let run = Run::open(directory).map_err(|error| format!("the run directory cannot be used: {error}"))?;
    let content = run.mounts().map_err(|error| format!("the mounts cannot be read: {error}"))?;
    let specifications = culvert::mount::decode(&content).map_err(|error| format!("the mounts cannot be read: {error}"))?;
    let mut mounts = MountTable::new();
    let mut targets_exist = false;
    for specification in &specifications {
        let identity = stat_path(&c_string(&specification.target)).ok().map(|found| (found.st_dev, found.st_ino));
        targets_exist |= identity.is_some();
        let mount = specification.clone();
        let open = Box::new(move || culvert_drivers::open(&mount));
        mounts.add(specification.target.clone(), identity, open).map_err(|error| format!("a mount cannot be added: {error}"))?;
    }
    Ok(Process::new(run, mounts, lock_descriptor, library, strict, targets_exist, specifications))
}

/// A command to be started in a run, by a process that is not itself intercepted (`culvert run`).
pub struct Launch<'a> {
    /// The run directory.
    pub run: &'a [u8],
    /// The descriptor, not close-on-exec, that holds the run directory's lock; -1 for none.
    pub lock_descriptor: i32,
    /// Path of libculvert.so.
    pub library: &'a [u8],
    /// Refuse programs that cannot be intercepted (EACCES).
    pub strict: bool,
    /// Where the log goes.
    pub log: Option<&'a [u8]>,
    /// The command: with a slash a path, else a name that is looked for in `search`.
    pub command: &'a [u8],
    /// `PATH`: directories, separated by colons.
    pub search: &'a [u8],
    /// All arguments, the command's name first.
    pub arguments: &'a [Vec<u8>],
    /// The environment, `name=value`.
    pub environment: &'a [Vec<u8>],
}

/// Why a command was not started.
#[derive(Debug)]
pub enum Failure {
    /// The run cannot be joined: one line that says why.
    Run(String),
    /// execve's errno.
    Exec(Errno),
}

/// Replaces this process by the command, which may live on one of the run's mounts. Returns only on failure.
pub fn launch(launch: &Launch<'_>) -> Failure {
    match enter(launch.run, launch.lock_descriptor, launch.library.to_vec(), launch.strict) {
        Ok(process) => process::set(process),
        Err(reason) => return Failure::Run(reason),
    }
    if let Some(path) = launch.log {
        log::open(path);
    }
    let strings = |list: &[Vec<u8>]| -> Vec<Vec<u8>> { list.iter().map(|entry| c_string(entry)).collect() };
    let pointers = |list: &[Vec<u8>]| -> Vec<usize> { list.iter().map(|entry| entry.as_ptr() as usize).chain([0]).collect() };
    let (arguments, environment) = (strings(launch.arguments), strings(launch.environment));
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    let start = |path: &[u8]| calls::process::start(path, arguments.as_ptr() as usize, environment.as_ptr() as usize);
    if launch.command.contains(&b'/') {
        return Failure::Exec(start(launch.command));
    }
    // execvp(3): a directory that may not be searched is remembered, and the search goes on.
    let mut last = Errno::ENOENT;
    for directory in launch.search.split(|&b| b == b':') {
        let directory = if directory.is_empty() { &b"."[..] } else { directory };
        match start(&[directory, b"/", launch.command].concat()) {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => last = Errno::EACCES,
            other => return Failure::Exec(other),
        }
    }
    Failure::Exec(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_strictly() {
        assert!(carried(b"/run/x:1020:0").is_some_and(|c| c.directory == b"/run/x" && c.lock_descriptor == 1020 && !c.strict && c.log.is_none()));
        assert!(carried(b"/run/x:-1:1:/tmp/a:b").is_some_and(|c| c.strict && c.log == Some(b"/tmp/a:b")));
        for bad in [&b""[..], b"/run/x", b"/run/x:", b"/run/x:a:0", b"/run/x:1"] {
            assert!(carried(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_environment_is_shortened_in_place() {
        let mut strings: Vec<Vec<u8>> = ["A=1", "CULVERT_RUN=x", "LD_AUDIT=/a/libculvert.so:/other.so", "B=2"].iter().map(|s| [s.as_bytes(), b"\0"].concat()).collect();
        let mut array: Vec<*mut u8> = strings.iter_mut().map(|s| s.as_mut_ptr()).chain([core::ptr::null_mut()]).collect();
        // SAFETY: the array is NULL-terminated and ours.
        let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
        let (index, _) = environment.get(b"CULVERT_RUN").unwrap();
        environment.remove(index);
        let (index, value) = environment.get(b"LD_AUDIT").unwrap();
        assert_eq!(value, b"/a/libculvert.so:/other.so");
        environment.skip(index, b"LD_AUDIT", "/a/libculvert.so:".len());
        let left: Vec<Vec<u8>> = environment.entries().map(|(_, entry)| entry.to_vec()).collect();
        assert_eq!(left, [&b"A=1"[..], b"LD_AUDIT=/other.so", b"B=2"]);
    }
}
