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
mod search;
pub mod static_tls;
pub mod tunables;
mod why;

use crate::descriptors::handed::HandedDown;
use crate::notice;
use crate::process::Process;
use crate::vfs::own_file::OwnFile;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_intercept::images::{Key, Said};
use culvert_mounts::References;
use culvert_run::{ShadowName, files::c_string};
use culvert_sys::{OwnedFd, nr, syscall};
pub use environment::pointers;
pub use format::{Format, HEAD, Loader, format};
pub use heritage::hand_down;
use search::Search;
pub use why::{NO_RUN, Why};

/// Everything that the new program's image is made of; must outlive the system call.
#[derive(Default)]
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
    handed: HandedDown,
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
    /// What it need not look up about its code.
    said: Option<Said>,
    /// What it is told about its own file.
    own: OwnFile,
    /// The library's copy, if ld.so will find it.
    copy: Option<&'static [u8]>,
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

/// The image of that program, and how it gets the library.
fn prepare(
    process: &Process,
    path: &[u8],
    arguments: usize,
    environment: usize,
    locate: &Locate<'_>,
) -> Result<(Box<Image>, Loader), Errno> {
    let mut search = Search::new(process, locate, path, arguments, environment);
    let found = search.loader();
    let completed = found.and_then(|loader| search.complete(path, loader));
    match completed {
        Ok(loader) => Ok((search.image, loader)),
        // The kernel has copied all strings before it looks for an interpreter.
        Err(errno) => Err(match search.depth {
            0 => errno,
            _ => environment::strings(&[arguments, environment])
                .err()
                .unwrap_or(errno),
        }),
    }
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
    let moved = match loader {
        // The next one finds it as this one would.
        Loader::Glibc | Loader::Preload if process.has_inherited_directory() => None,
        _ => removed_directory::replace(process),
    };
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
