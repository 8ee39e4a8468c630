//! Starting programs: execve and execveat, transactional, with our environment, from mounts too.
//!
//! A program that will be intercepted finds its inherited descriptors as shadows. One that will not (static, set-user-ID, another C library without
//! LD_PRELOAD) gets filled shadows, so that it reads the right bytes at the shared offset.

mod format;

pub use format::{Format, HEAD, Loader, format};

use crate::description::{Description, Object, given_to_strangers};
use crate::looked_at;
use crate::memory::{self, c_string};
use crate::process::{self, Process};
use crate::run::ShadowName;
use crate::shadow::{self, Descriptor};
use crate::start::{OUTSIDE, STRICT};
use alloc::{boxed::Box, sync::Arc, vec, vec::Vec};
use culvert::Errno;
use culvert_intercept::user;
use culvert_sys::{nr, syscall};

/// The environment's entries that carry a run, for the next program.
fn carriers(
    process: &Process,
    loader: Loader,
    others: &[Vec<u8>; 2],
    nested: Option<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    let list = |name: &[u8], old: &[u8]| {
        let mut entry = name.to_vec();
        entry.push(b'=');
        entry.extend_from_slice(&process.library);
        if !old.is_empty() {
            entry.push(b':');
            entry.extend_from_slice(old);
        }
        entry.push(0);
        entry
    };
    match loader {
        Loader::Musl => entries.push(list(b"LD_PRELOAD", &others[1])),
        _ => entries.push(list(b"LD_AUDIT", &others[0])),
    }
    entries.push(nested.unwrap_or_else(|| carrier(process)));
    entries
}

/// `CULVERT_RUN=<directory>:<lock descriptor>:<flags>[:<log file>]`.
fn carrier(process: &Process) -> Vec<u8> {
    let mut entry = crate::run::VARIABLE.to_vec();
    entry.push(b'=');
    entry.extend_from_slice(&process.run.path);
    let lock = process
        .lock_descriptor
        .load(core::sync::atomic::Ordering::Relaxed);
    let flags = process.flags & !OUTSIDE | if process.is_outside() { OUTSIDE } else { 0 };
    entry.extend_from_slice(alloc::format!(":{lock}:{flags}").as_bytes());
    if let Some(path) = crate::log::path() {
        entry.push(b':');
        entry.extend_from_slice(path);
    }
    entry.push(0);
    entry
}

/// Everything that the new program's image is made of; must outlive the system call.
struct Image {
    path: Vec<u8>,
    arguments: Vec<usize>,
    environment: Vec<usize>,
    strings: Vec<Vec<u8>>,
}

/// Where a program file is.
pub enum Program {
    /// In the real file system: the path for the kernel (NUL-terminated).
    Host(Vec<u8>),
    /// On a mount that is a tree of the kernel's own: its path in the source (NUL-terminated).
    Backed(Vec<u8>),
    /// On a mount: path there, its node's shadow.
    Mount {
        /// The path as the program sees it.
        path: Vec<u8>,
        /// Which node.
        name: ShadowName,
    },
}

/// The pointers of a NULL-terminated array in the program's memory (E2BIG beyond a million).
fn pointers(address: usize) -> Result<Vec<usize>, Errno> {
    let mut list = Vec::new();
    if address == 0 {
        return Ok(list);
    }
    loop {
        let pointer: usize = memory::get(address + list.len() * 8)?;
        if pointer == 0 {
            return Ok(list);
        }
        if list.len() >= 1 << 20 {
            return Err(Errno::E2BIG);
        }
        list.push(pointer);
    }
}

fn starts_with(address: usize, prefix: &[u8]) -> Result<bool, Errno> {
    let mut head = [0u8; 16];
    for (i, wanted) in prefix.iter().enumerate() {
        let byte: u8 = memory::get(address + i)?;
        head[i] = byte;
        if byte != *wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The program file `path` on the real file system or a mount, opened for a look.
struct Look {
    file: Descriptor,
}

impl Look {
    fn open(path: &[u8]) -> Result<Self, Errno> {
        Ok(Self {
            file: shadow::open(path, 0o4000 /* O_NONBLOCK: a FIFO is no program */, 0)?,
        })
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        // SAFETY: the slice is given with its length.
        unsafe {
            syscall::call(
                nr::PREAD64,
                [
                    self.file.0 as usize,
                    into.as_mut_ptr() as usize,
                    into.len(),
                    offset as usize,
                ],
            )
        }
        .unwrap_or(0)
    }

    fn format(&self) -> Format {
        let mut head = [0u8; HEAD];
        let got = self.read_at(0, &mut head);
        format(&head[..got], &mut |offset, into| self.read_at(offset, into))
    }

    /// Whether the caller may execute the file at `path` (NUL-terminated), which this is.
    fn is_executable(&self, path: &[u8]) -> bool {
        const X_OK: usize = 1;
        const AT_EACCESS: usize = 0x200;
        // SAFETY: the path ends in NUL.
        let there = unsafe {
            syscall::call(
                nr::FACCESSAT2,
                [
                    crate::calls::path::AT_FDCWD as usize,
                    path.as_ptr() as usize,
                    X_OK,
                    AT_EACCESS,
                ],
            )
        };
        !matches!(there, Err(Errno::EACCES))
    }

    /// Whether the kernel will run it with other rights than the caller's (AT_SECURE), so that ld.so ignores LD_AUDIT.
    fn is_privileged(&self) -> bool {
        let Ok(found) = crate::run::stat_descriptor(self.file.0) else {
            return false;
        };
        let caller = process::caller();
        let set_uid = found.st_mode & 0o4000 != 0 && found.st_uid != caller.uid;
        let set_gid = found.st_mode & 0o2010 == 0o2010 && found.st_gid != caller.gid;
        set_uid || set_gid || (caller.uid != 0 && self.has_capabilities())
    }

    /// Whether the file has capabilities (capabilities(7)).
    fn has_capabilities(&self) -> bool {
        // SAFETY: the name ends in NUL; a size of zero asks for the length only.
        unsafe {
            syscall::call(
                nr::FGETXATTR,
                [
                    self.file.0 as usize,
                    c"security.capability".as_ptr() as usize,
                    0,
                    0,
                ],
            )
        }
        .is_ok()
    }
}

/// Finds where the program at absolute or relative `path` is. Given by the path calls.
pub type Locate<'a> = dyn Fn(&[u8]) -> Result<Program, Errno> + 'a;

/// The path that the kernel is given for a program on a mount: its filled shadow, under the path it has on the mount, so that `/proc/self/exe` and
/// `$ORIGIN` still say where it came from.
fn materialise(path: &[u8], name: ShadowName) -> Result<Vec<u8>, Errno> {
    let process = process::get();
    let file_system = process::file_system(crate::resolver::MountId(name.mount))?;
    let attributes = file_system
        .attributes(name.node)
        .map_err(|error| error.errno())?;
    if attributes.kind != culvert::FileKind::Regular || attributes.permissions & 0o111 == 0 {
        return Err(Errno::EACCES);
    }
    let file = match file_system
        .open(&process::caller(), name.node, culvert::OpenFlags(0))
        .map_err(|error| error.errno())?
    {
        culvert::Opened::Driven(file) => file,
        culvert::Opened::Backed(fd) => {
            return Ok(c_string(&crate::run::descriptor_path(Descriptor(fd).0)?));
        }
    };
    if !file_system.capabilities().immutable {
        looked_at::renew(name, &*file).map_err(|error| error.errno())?;
    }
    match shadow::fill(name, &*file).map_err(|error| error.errno()) {
        // It is being executed, so it is filled.
        Ok(()) | Err(Errno::ETXTBSY) => {}
        Err(error) => return Err(error),
    }
    let mut target = process.run.path.clone();
    target.extend_from_slice(b"/exe");
    for part in path.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
        // SAFETY: the path ends in NUL. One that exists already is fine.
        let _ = unsafe { syscall::call(nr::MKDIR, [c_string(&target).as_ptr() as usize, 0o700]) };
        target.push(b'/');
        target.extend_from_slice(part);
    }
    let link = |to: &[u8]| {
        let shadow = process.run.shadow(name);
        // SAFETY: both paths end in NUL.
        unsafe { syscall::call(nr::LINK, [shadow.as_ptr() as usize, to.as_ptr() as usize]) }
    };
    let place = c_string(&target);
    match link(&place) {
        Ok(_) => Ok(place),
        // The program that had this path before may have been another one.
        Err(Errno::EEXIST) => {
            // SAFETY: gettid has no arguments.
            let thread = unsafe { syscall::raw(nr::GETTID, [0; 6]) };
            target.extend_from_slice(alloc::format!("\n{thread}").as_bytes());
            let new = c_string(&target);
            link(&new)?;
            let paths = [new.as_ptr() as usize, place.as_ptr() as usize];
            // SAFETY: both paths end in NUL. rename(2) leaves two links to one file as they are: the new one goes in any case.
            let renamed = unsafe {
                let renamed = syscall::call(nr::RENAME, paths);
                let _ = syscall::call(nr::UNLINK, [paths[0]]);
                renamed
            };
            renamed.map(|_| place)
        }
        Err(error) => Err(error),
    }
}

/// The path below a mount that `path` of an executed shadow stands for.
pub fn origin(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(&process::get().run.path[..])?
        .strip_prefix(b"/exe")
}

/// execve(2) of the program at `path`, with the argument and environment arrays at the program's addresses. Returns only on failure, with nothing changed.
pub fn execute(path: &[u8], arguments: usize, environment: usize, locate: &Locate<'_>) -> Errno {
    match prepare(path, arguments, environment, locate) {
        Ok((image, loader)) => start(image, loader),
        Err(errno) => errno,
    }
}

fn prepare(
    path: &[u8],
    arguments: usize,
    environment: usize,
    locate: &Locate<'_>,
) -> Result<(Box<Image>, Loader), Errno> {
    let process = process::get();
    let mut image = Box::new(Image {
        path: Vec::new(),
        arguments: pointers(arguments)?,
        environment: Vec::new(),
        strings: Vec::new(),
    });
    let mut shown = path.to_vec();
    let mut arguments = image.arguments.clone();
    // The kernel reads `#!` lines itself, unless the script or an interpreter lies on a mount.
    let mut ourselves = false;
    let mut depth = 0;
    let loader = loop {
        let program = match locate(&shown) {
            Err(_) if depth > 0 && !ourselves => break Loader::None("its interpreter is missing"),
            program => program?,
        };
        let (host, on_mount) = match program {
            Program::Host(host) => (host, false),
            Program::Backed(host) => (host, true),
            Program::Mount { path, name } => (materialise(&path, name)?, true),
        };
        ourselves |= on_mount && depth > 0;
        if ourselves || depth == 0 {
            image.path.clone_from(&host);
            image.arguments.clone_from(&arguments);
        }
        let look = match Look::open(&host) {
            Ok(look) => look,
            // Executable but not readable: the kernel may still run it.
            Err(Errno::EACCES) => break Loader::None("it cannot be read"),
            Err(_) if depth > 0 && !ourselves => break Loader::None("its interpreter is missing"),
            Err(error) => return Err(error),
        };
        match look.format() {
            Format::Script {
                interpreter,
                argument,
            } => {
                depth += 1;
                if depth > 5 {
                    return Err(Errno::ELOOP);
                }
                if !look.is_executable(&host) {
                    return Err(Errno::EACCES);
                }
                ourselves |= on_mount;
                let mut list = vec![c_string(&interpreter)];
                list.extend(argument.as_deref().map(c_string));
                list.push(c_string(&shown));
                let mut start: Vec<usize> =
                    list.iter().map(|string| string.as_ptr() as usize).collect();
                image.strings.extend(list);
                start.extend(arguments.iter().skip(1));
                arguments = start;
                shown = interpreter;
            }
            Format::Elf(_) if look.is_privileged() => {
                break Loader::None("it changes its user or group, or gains capabilities");
            }
            Format::Elf(Loader::None(_)) if is_dynamic_loader(&shown) => {
                name_program_for_loader(&mut image, locate)?;
                break Loader::Glibc;
            }
            Format::Elf(loader) => break loader,
            Format::Other => break Loader::None("its format is unknown"),
        }
    };
    if let Loader::None(reason) = loader {
        crate::log!(
            "{} is not intercepted: {reason}",
            alloc::string::String::from_utf8_lossy(path)
        );
        if process.flags & STRICT != 0 {
            return Err(Errno::EACCES);
        }
    }
    let mut others = [Vec::new(), Vec::new()];
    let mut nested = None;
    for pointer in pointers(environment)? {
        if starts_with(pointer, b"CULVERT_RUN=")? {
            // Ours is hidden from the program: this one was put there, by `culvert run` inside a run.
            let mut value = vec![0u8; 4096];
            let length = user::string_in(pointer, &mut value).map_err(|_| Errno::E2BIG)?;
            value.truncate(length + 1);
            nested = Some(value);
            continue;
        }
        let taken = match loader {
            Loader::Glibc if starts_with(pointer, b"LD_AUDIT=")? => Some((0, 9)),
            Loader::Musl if starts_with(pointer, b"LD_PRELOAD=")? => Some((1, 11)),
            _ => None,
        };
        if let Some((which, skip)) = taken {
            let mut value = vec![0u8; 4096];
            let length = user::string_in(pointer + skip, &mut value).map_err(|_| Errno::E2BIG)?;
            value.truncate(length);
            others[which] = value;
            continue;
        }
        image.environment.push(pointer);
    }
    // Ours come last: start-up hides them by ending the array earlier.
    for entry in carriers(process, loader, &others, nested) {
        image.environment.push(entry.as_ptr() as usize);
        image.strings.push(entry);
    }
    image.environment.push(0);
    image.arguments.push(0);
    Ok((image, loader))
}

/// Whether `path` is glibc's ld.so, started as a program: it loads another, with auditors.
fn is_dynamic_loader(path: &[u8]) -> bool {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    name.starts_with(b"ld-linux") || name == b"ld.so"
}

/// ld.so opens the program it is told to load before any auditor runs: a program on a mount is named by its filled shadow. Its options are those of
/// ld.so(8).
fn name_program_for_loader(image: &mut Image, locate: &Locate<'_>) -> Result<(), Errno> {
    const WITH_VALUE: [&[u8]; 7] = [
        b"--library-path",
        b"--inhibit-rpath",
        b"--audit",
        b"--preload",
        b"--argv0",
        b"--glibc-hwcaps-prepend",
        b"--glibc-hwcaps-mask",
    ];
    let mut index = 1;
    while let Some(&address) = image.arguments.get(index) {
        let mut word = vec![0u8; 4096];
        let length = user::string_in(address, &mut word).map_err(|_| Errno::E2BIG)?;
        word.truncate(length);
        if word.starts_with(b"--") {
            index += if WITH_VALUE.contains(&&word[..]) {
                2
            } else {
                1
            };
            continue;
        }
        let file = match locate(&word) {
            Ok(Program::Mount { path, name }) => materialise(&path, name)?,
            Ok(Program::Backed(file)) => file,
            Ok(Program::Host(_)) | Err(_) => break,
        };
        image.arguments[index] = file.as_ptr() as usize;
        image.strings.push(file);
        break;
    }
    Ok(())
}

fn start(image: Box<Image>, loader: Loader) -> Errno {
    let process = process::get();
    if let Err(errno) = hand_down(process, loader) {
        return errno;
    }
    let call = [
        image.path.as_ptr() as usize,
        image.arguments.as_ptr() as usize,
        image.environment.as_ptr() as usize,
        0,
        0,
        0,
    ];
    // In a vfork child the memory is the parent's: it frees what a successful exec leaves behind.
    let kept = match process::vfork_child() {
        Some(child) => {
            child.keep(image);
            None
        }
        None => Some(image),
    };
    culvert_intercept::before_exec();
    // SAFETY: path and arrays end as the kernel wants them and live until it has copied them; pointers that are the program's own may be bad,
    // which the kernel answers with EFAULT.
    let result = unsafe { culvert_intercept::wait::interruptible(nr::EXECVE, call) };
    culvert_intercept::exec_failed();
    drop(kept);
    match result {
        Ok(result) => Errno::check(result).err().unwrap_or(Errno::EIO),
        Err(_) => crate::calls::RESTART,
    }
}

/// Makes every descriptor that survives exec one that the next program can use.
fn hand_down(process: &Process, loader: Loader) -> Result<(), Errno> {
    process.table.promote_all(true)?;
    if process::vfork_child().is_none() {
        process.table.keep_locks_over_exec();
    }
    if !matches!(loader, Loader::None(_)) {
        return Ok(());
    }
    fill_inherited(process)
}

/// Fills the shadows of all files that are open here and survive exec: whoever gets them next reads them without us.
pub fn fill_inherited(process: &Process) -> Result<(), Errno> {
    // What this process has inherited and never used is not in the table yet.
    for fd in open_descriptors() {
        process.table.get(fd);
    }
    let mut inherited: Vec<Arc<Description>> = Vec::new();
    process.table.each(|fd, description| {
        if matches!(description.object, Object::File(_))
            && !crate::descriptors::close_on_exec(fd).unwrap_or(true)
        {
            inherited.push(description.clone());
        }
    });
    if let Some(child) = process::vfork_child() {
        inherited.extend(
            child
                .installed()
                .into_iter()
                .filter_map(|(_, description)| description)
                .filter(|d| matches!(d.object, Object::File(_))),
        );
    }
    for description in inherited {
        if description.is_direct() {
            continue;
        }
        let changes = !description.file_system()?.capabilities().immutable;
        if changes && let Object::File(_) = &description.object {
            given_to_strangers();
            let given = match description.writable() {
                Ok(_) => looked_at::give_to_stranger(&description),
                Err(_) => looked_at::keep_equal(&description).map(drop),
            };
            given.map_err(|error| crate::calls::io::report(&description, "exec", &error))?;
        } else if let Object::File(file) = &description.object {
            let name = ShadowName {
                mount: description.mount.0,
                node: description.node,
            };
            shadow::fill(name, &**file)
                .map_err(|error| crate::calls::io::report(&description, "exec", &error))?;
        }
    }
    Ok(())
}

/// All open descriptors of this process, from `/proc/self/fd`.
pub fn open_descriptors() -> Vec<i32> {
    let Ok(directory) = shadow::open(b"/proc/self/fd\0", 0o200000, 0) else {
        return Vec::new();
    };
    crate::run::list(&directory)
        .iter()
        .filter_map(|name| core::str::from_utf8(name).ok()?.parse::<i32>().ok())
        .filter(|&fd| fd != directory.0)
        .collect()
}
