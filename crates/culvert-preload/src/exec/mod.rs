//! Starting programs: execve and execveat, transactional, with our environment, from mounts too.
//!
//! A program that will be intercepted finds its inherited descriptors as shadows. One that will not
//! (static, set-user-ID, another C library without LD_PRELOAD) gets filled shadows, so that it
//! reads the right bytes at the shared offset, and directories that the kernel can list.

mod copied_tree;
pub mod debugger;
mod directories;
mod ended_process;
mod environment;
mod format;
mod heritage;
mod interpreter;
pub mod library_names;
pub mod limits;
mod loader;
mod look;
mod materialise;
pub mod program;
mod removed_directory;
pub mod static_tls;
pub mod tunables;
mod why;

use crate::notice;
use crate::process::Process;
use crate::vfs::own_file::OwnFile;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_intercept::images::Key;
use culvert_mounts::References;
use culvert_run::{STRICT, ShadowName, files::c_string};
use culvert_sys::{OwnedFd, nr, syscall};
pub use environment::pointers;
pub use format::{Format, HEAD, Loader, format};
pub use heritage::hand_down;
use look::Look;
use materialise::{Executable, materialise};
pub use why::{NO_RUN, Why};

/// Everything that the new program's image is made of; must outlive the system call.
struct Image {
    path: CString,
    arguments: Vec<usize>,
    environment: Vec<usize>,
    strings: Vec<CString>,
    /// The node whose shadow this is.
    shadow: Option<ShadowName>,
    /// It joins the run that `culvert run` has just made in this one, and has said what there is to
    /// say.
    nested: bool,
    /// What the environment says is there.
    handed: Vec<(u16, OwnedFd)>,
    /// Why the program would start without its mounts, and what to do: then it does not start.
    hindrance: Option<String>,
    /// What the drivers of inherited files have saved, which it says as well.
    saved: Option<OwnedFd>,
}

impl Image {
    /// The arguments of a script's interpreter: `first` in place of the first of the script's
    /// `arguments`.
    fn with_first(&mut self, first: [Option<Vec<u8>>; 3], arguments: &[usize]) -> Vec<usize> {
        let words: Vec<CString> = first.into_iter().flatten().map(c_string).collect();
        let places = words.iter().map(|word| word.as_ptr() as usize);
        let all = places.chain(arguments.iter().skip(1).copied()).collect();
        self.strings.extend(words);
        all
    }
}

/// What a program is given beside its environment and the run, and does not see.
struct Extras {
    /// Bytes of static TLS more than ld.so provides by itself.
    room: Option<u64>,
    /// What it need not look up about its code ([`culvert_intercept::images::StartedBefore`]).
    said: Option<u64>,
    /// What it is told about its own file.
    own: OwnFile,
}

/// The last component of `path`.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Where a program file is.
pub enum Program {
    /// In the real file system: the path for the kernel (NUL-terminated), and which file it is,
    /// where that was asked.
    Host(CString, Option<Key>),
    /// On a mount that is a tree of the kernel's own.
    Backed {
        /// Its path for the kernel (NUL-terminated).
        host: CString,
        /// The path at which programs see it, if it lies below the mount's source.
        seen: Option<Vec<u8>>,
    },
    /// On a mount: path there, its node's shadow.
    Mount {
        /// The path as the program sees it.
        path: Vec<u8>,
        /// Which node.
        name: ShadowName,
        /// Keeps the node known to its driver until the kernel has a file to execute.
        keeper: References<'static>,
    },
}

/// Finds where the program at absolute or relative `path` is. Given by the path calls.
pub type Locate<'a> = dyn Fn(&[u8]) -> Result<Program, Errno> + 'a;

/// execve(2) of the program at `path`, with the argument and environment arrays at the program's
/// addresses. Returns only on failure, with nothing changed.
pub fn execute(
    process: &Process,
    path: &[u8],
    arguments: usize,
    environment: usize,
    locate: &Locate<'_>,
) -> Errno {
    match prepare(process, path, arguments, environment, locate) {
        Ok((image, loader)) => start(process, path, image, loader),
        Err(errno) => errno,
    }
}

fn prepare(
    process: &Process,
    path: &[u8],
    arguments: usize,
    environment: usize,
    locate: &Locate<'_>,
) -> Result<(Box<Image>, Loader), Errno> {
    let mut depth = 0;
    let prepared = assemble(process, path, arguments, environment, locate, &mut depth);
    // The kernel has copied all strings before it looks for an interpreter.
    prepared.map_err(|errno| match depth {
        0 => errno,
        _ => environment::strings(&[arguments, environment])
            .err()
            .unwrap_or(errno),
    })
}

/// `depth`: how many interpreters were looked at.
fn assemble(
    process: &Process,
    path: &[u8],
    arguments: usize,
    environment: usize,
    locate: &Locate<'_>,
    depth: &mut u32,
) -> Result<(Box<Image>, Loader), Errno> {
    // The kernel opens the file first.
    let (given, own) = (pointers(arguments), pointers(environment));
    let bad = given.as_ref().err().or(own.as_ref().err()).copied();
    let mut image = Box::new(Image {
        path: CString::default(),
        arguments: given.unwrap_or_default(),
        environment: Vec::new(),
        strings: Vec::new(),
        shadow: None,
        nested: false,
        handed: Vec::new(),
        hindrance: None,
        saved: None,
    });
    let mut limits = None;
    let hindrance = |limits: &Option<limits::Limits>, look: &Look| {
        limits.as_ref()?.shortage(look, &process.library)
    };
    let mut name = path.to_vec();
    // What /proc/self/exe is to show, where the kernel shows another name of the file.
    let mut shown = None;
    let mut on_mount_path;
    let mut arguments = image.arguments.clone();
    // The kernel reads `#!` lines itself, unless the script or an interpreter lies on a mount.
    let mut ourselves = false;
    let (mut room, mut said) = (None, None);
    let loader = loop {
        let program = match locate(&name) {
            Err(_) if *depth > 0 && !ourselves => break Loader::None(Why::NoInterpreter),
            program => program?,
        };
        (shown, on_mount_path) = (None, None);
        let (mut shadow, mut file) = (None, None);
        let (host, on_mount) = match program {
            Program::Host(host, key) => {
                file = key;
                (host, false)
            }
            Program::Backed { host, seen } => {
                shown = seen.filter(|seen| *seen != host.to_bytes());
                (host, true)
            }
            Program::Mount {
                path,
                name,
                keeper: _keeper,
            } => {
                let Executable { host, is_shadow } = materialise(process, &path, name)?;
                if is_shadow {
                    shadow = Some(name);
                    on_mount_path = Some(path);
                } else {
                    shown = Some(path);
                }
                (host, true)
            }
        };
        ourselves |= on_mount && *depth > 0;
        if ourselves || *depth == 0 {
            image.path.clone_from(&host);
            image.arguments.clone_from(&arguments);
            image.shadow = shadow;
        }
        // Not before: most names of a search in PATH are not there.
        let limits = limits.get_or_insert_with(limits::Limits::now);
        // They depend on more than the file.
        if let (Some(key), None, None) = (file, bad, &*limits)
            && let Some(before) = look::started_before(process, &key)
            && for_kernel(process, before.interpreter.to_bytes(), locate).is_none()
        {
            said = before.said;
            break Loader::Glibc;
        }
        let mut look = match Look::open(&host) {
            Ok(look) => look,
            Err(errno) if bad.is_some() => {
                let refused = errno != Errno::EACCES || !look::is_executable(&host);
                return Err(bad.filter(|_| !refused).unwrap_or(errno));
            }
            // Executable but not readable: the kernel may still run it.
            Err(Errno::EACCES) => break Loader::None(look::unreadable(&host)),
            Err(_) if *depth > 0 && !ourselves => break Loader::None(Why::NoInterpreter),
            Err(error) => return Err(error),
        };
        if let Some(bad) = bad {
            return Err(look.check(&host).err().unwrap_or(bad));
        }
        match look.format() {
            Format::Script {
                interpreter,
                argument,
            } => {
                if !look::is_executable(&host) {
                    return Err(Errno::EACCES);
                }
                *depth += 1;
                if *depth > 5 {
                    return Err(Errno::ELOOP);
                }
                // The kernel would tell the interpreter another name than the program gave.
                ourselves |= on_mount || host.to_bytes() != name;
                // The kernel will not see it.
                if ourselves {
                    crate::vfs::busy::may_execute(look.file.raw())?;
                }
                let first = [Some(interpreter.clone()), argument, Some(name)];
                arguments = image.with_first(first, &arguments);
                name = interpreter;
            }
            Format::Elf { .. } if let Some(why) = look.privileges() => break Loader::None(why),
            Format::Elf {
                loader: Loader::None(_),
                ..
            } if loader::is_dynamic_loader(&name) => {
                let loader = loader::name_program(process, &name, &mut image, locate)?;
                if loader == Loader::Glibc {
                    room = static_tls::wanted(process, &look);
                }
                image.hindrance = hindrance(limits, &look);
                break loader;
            }
            Format::Elf {
                loader,
                interpreter,
            } => {
                if let Some(interpreter) = interpreter
                    && let Some(own) = for_kernel(process, &interpreter, locate)
                {
                    // Of the copy the kernel would not say so.
                    if !look::is_executable(&host) {
                        return Err(Errno::EACCES);
                    }
                    crate::vfs::busy::may_execute(look.file.raw())?;
                    let place = match shown.or(on_mount_path) {
                        Some(path) => path,
                        None => culvert_run::descriptor_path(look.file.raw())?,
                    };
                    image.path = interpreter::with_interpreter(process, &look, &own, &place)?;
                    shown = Some(place);
                    image.shadow = None;
                    image.arguments.clone_from(&arguments);
                    look = Look::open(&image.path)?;
                }
                if loader == Loader::Glibc {
                    room = static_tls::wanted(process, &look);
                }
                image.hindrance = hindrance(limits, &look);
                break loader;
            }
            Format::Other => break Loader::None(Why::UnknownFormat),
        }
    };
    let loader = permitted(process, path, loader)?;
    let mut extras = Extras {
        room,
        said,
        own: OwnFile::default(),
    };
    // A program that is not intercepted would hand it on.
    if !matches!(loader, Loader::None(_)) {
        let kernels = image.path.to_bytes();
        extras.own = OwnFile {
            given: (kernels != path).then(|| path.to_vec()),
            shown,
        };
    }
    environment::extend(process, &mut image, own?, loader, &extras)?;
    image.environment.push(0);
    image.arguments.push(0);
    Ok((image, loader))
}

/// How the program at `path` gets the library, where `loader` was found for it: EACCES where it
/// would not get it, and must not start so.
fn permitted(process: &Process, path: &[u8], loader: Loader) -> Result<Loader, Errno> {
    let why = match loader {
        Loader::None(why) => why,
        _ if look::library_is_there(process) => return Ok(loader),
        // A loader that finds no library would start the program without it.
        _ => Why::NoLibrary,
    };
    let refusal = match process.flags & STRICT != 0 {
        true => Some("so --strict does not let it start"),
        false => {
            // It would take the machine's files for those below its root.
            let root = process.mounts.root();
            root.map(|_| "so it is not started below a root directory on a mount")
        }
    };
    match refusal {
        Some(because) => {
            notice::mounts_are_lost(path, why.reason(), because);
            Err(Errno::EACCES)
        }
        None => Ok(Loader::None(why)),
    }
}

/// The path by which the kernel finds the interpreter that a program calls `path`,
/// if that is another one.
fn for_kernel(process: &Process, path: &[u8], locate: &Locate<'_>) -> Option<CString> {
    let host = match locate(path).ok()? {
        Program::Host(host, _) | Program::Backed { host, .. } => host,
        Program::Mount {
            path,
            name,
            keeper: _keeper,
        } => materialise(process, &path, name).ok()?.host,
    };
    (host.to_bytes() != path).then_some(host)
}

/// Starts `image`, the program that the caller calls `name`.
fn start(process: &Process, name: &[u8], mut image: Box<Image>, loader: Loader) -> Errno {
    // Of this process, also where the image is freed by another.
    let handed = (core::mem::take(&mut image.handed), image.saved.take());
    if let Err(errno) = heritage::hand_down(process, &loader) {
        return errno;
    }
    if let Loader::None(why) = loader
        && !image.nested
        && look::is_executable(&image.path)
    {
        why.tell(name);
    }
    crate::lifecycle::exit::execs(process, matches!(loader, Loader::None(_)));
    let call = [
        image.path.as_ptr() as usize,
        image.arguments.as_ptr() as usize,
        image.environment.as_ptr() as usize,
    ];
    let shadow = image.shadow;
    let moved = removed_directory::replace(process);
    let replaced = match loader {
        Loader::None(_) if moved.is_none() => match directories::replace(process) {
            Ok(replaced) => replaced,
            Err(errno) => return errno,
        },
        _ => directories::Replaced::default(),
    };
    // Instead of the program: nothing of this one would have been left either.
    if let Some(hindrance) = &image.hindrance
        && !matches!(loader, Loader::None(_))
        && look::is_executable(&image.path)
    {
        notice::end_without_mounts(name, hindrance);
    }
    // In a vfork child the memory is the parent's: it frees what a successful exec leaves behind.
    let kept = match culvert_run::task::vfork_child() {
        Some(child) => {
            child.keep(image);
            None
        }
        None => Some(image),
    };
    // As often as others may fill the same shadow at the same time.
    let mut tries = 100;
    let result = loop {
        culvert_intercept::before_exec();
        // SAFETY: path and arrays end as the kernel wants them and live until it has copied them;
        // pointers that are the program's own may be bad, which the kernel answers with EFAULT.
        let result = unsafe { culvert_intercept::wait::call(nr::EXECVE, call) };
        culvert_intercept::exec_failed();
        tries -= 1;
        if result != Err(Errno::ETXTBSY)
            || tries == 0
            || !shadow.is_some_and(|name| look::was_ours(process, name))
        {
            break result;
        }
    };
    drop((kept, replaced, moved, handed));
    result.err().unwrap_or(Errno::EIO)
}

/// execve(2) of an image of ours, outside of any call of the program's. Comes back only on failure.
fn replace(image: &Image) -> Errno {
    culvert_intercept::before_exec();
    // SAFETY: path and arrays end as the kernel wants them.
    let result = unsafe {
        syscall::call(
            nr::EXECVE,
            [
                image.path.as_ptr() as usize,
                image.arguments.as_ptr() as usize,
                image.environment.as_ptr() as usize,
            ],
        )
    };
    culvert_intercept::exec_failed();
    result.err().unwrap_or(Errno::EIO)
}
