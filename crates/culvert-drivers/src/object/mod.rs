//! Drivers of others, in shared libraries that have the ABI of `culvert/driver.h`.
//!
//! [`Library`] makes a driver of a table of functions, whoever has loaded it. A library that needs
//! no libc is loaded here, into the program's own process: `elf` reads what it is and needs,
//! `placed` maps and relocates it, `provided` is what it gets in place of a libc. All others run in
//! a host, whose command loads them by dlopen(3) (`culvert-library`).

mod driver;
mod elf;
mod placed;
mod provided;

pub use driver::{Library, Words};
pub use placed::table;

use crate::archive::host::{create_new, open_read};
use crate::passthrough::{self, kernel};
use crate::{Environment, Prepared, Warnings};
use alloc::{boxed::Box, format, string::String, vec, vec::Vec};
use culvert::library::abi::{Driver, STATELESS, VERSION};
use culvert::mount::Mount;
use culvert::path::PathAdapter;
use culvert::sync::Mutex;
use culvert::{Errno, Error, FileSystem, Result};
use culvert_sys::{OwnedFd, fs, process, trust};
use elf::Object;

/// A library larger than this is not loaded into programs, bytes.
const MOST: u64 = 64 << 20;

/// What a library defines.
pub const SYMBOL: &str = "culvert_driver";

/// Version, size and flags: where the table of every version begins.
pub const HEAD: usize = 16;

pub(crate) fn refused(why: impl Into<String>) -> Error {
    Error::because(Errno::ENOEXEC, why.into())
}

/// A library that others may change would do what they like with root's rights. Whatever the group:
/// of a file with an access list its bits are the mask, the most that the list gives (acl(5)).
///
/// # Errors
/// `EPERM`, with what to do.
pub fn check_closed(uid: u32, mode: u32) -> Result<()> {
    match (uid, mode & 0o022 != 0) {
        (0, false) => Ok(()),
        (0, true) => Err(Error::because(
            Errno::EPERM,
            "others than root may write it; chmod go-w makes it one that root loads",
        )),
        _ => Err(Error::because(
            Errno::EPERM,
            format!(
                "it belongs to user {uid}, and root loads none but root's own; chown it, or run \
                as that user"
            ),
        )),
    }
}

/// Whether a table that begins with `version` and `size` fits.
///
/// # Errors
/// `ENOEXEC`, with the reason.
pub fn check_head(version: u32, size: u32) -> Result<()> {
    if version != VERSION {
        return Err(refused(format!(
            "made for version {version} of culvert/driver.h, and this is version {VERSION}; \
            compile it anew"
        )));
    }
    if (size as usize) < HEAD || !(size as usize).is_multiple_of(size_of::<usize>()) {
        return Err(refused(format!("culvert_driver.size is {size}")));
    }
    Ok(())
}

/// Where a library runs that the user says nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// In each program of the run.
    Process,
    /// In a host, for this reason.
    Host(String),
}

/// The bytes of the library at `path`, as they are now, and whether it may be loaded. To root it
/// must be closed to all others.
fn bytes_of(path: &[u8]) -> Result<Vec<u8>> {
    let file = open_read(path)?;
    let found = fs::fstat(&file)?;
    if found.st_mode & 0o170_000 != 0o100_000 {
        return Err(refused("not a regular file"));
    }
    if process::geteuid() == 0 {
        check_closed(found.st_uid, found.st_mode)?;
    }
    read(&file, found.st_size as u64, MOST)
}

fn read(file: &OwnedFd, size: u64, most: u64) -> Result<Vec<u8>> {
    if size > most {
        return Err(refused(format!(
            "of its {size} bytes {most} are the most that programs load"
        )));
    }
    let mut bytes = vec![0; size as usize];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match fs::pread(file, rest, done as u64)? {
            0 => return Err(refused("it became shorter while it was read")),
            count => done += count,
        }
    }
    Ok(bytes)
}

/// Where the library at `path` runs if nobody says it, and why.
///
/// # Errors
/// It cannot be read, or root does not load it.
pub fn fit(path: &[u8]) -> Result<Fit> {
    let bytes = bytes_of(path)?;
    let is_stateless = |object: &Object<'_>| object.flags().map(|flags| flags & STATELESS != 0);
    let judged = Object::read(&bytes).and_then(|object| {
        object.check(provided::address)?;
        is_stateless(&object)
    });
    Ok(match judged {
        Ok(true) => Fit::Process,
        Ok(false) => Fit::Host("it does not say that it is stateless (CULVERT_STATELESS)".into()),
        Err(error) => Fit::Host(format!("{error}")),
    })
}

/// Once, in the command: pins the library for the run, and begins it once, so that what is wrong is
/// told before a program starts.
pub(crate) fn prepare(mount: &Mount, environment: &Environment<'_>) -> Result<Prepared> {
    let summary = "a library";
    let mut mount = mount.clone();
    // Whoever has a loader of its own pins it by that.
    if let (false, Some(run)) = (environment.alone, environment.run_directory) {
        let within = |error: Error| error.within(&mount.driver);
        let bytes = bytes_of(mount.driver.as_bytes()).map_err(within)?;
        provided::keep_by(environment.keeper);
        let driver = load(&bytes).map_err(within)?;
        let trial = Library::begin(driver, &mount).map_err(within)?;
        let tree = trial.tree().map_err(within)?;
        let tree = identity(tree.as_ref()).map_err(within)?;
        drop(trial);
        let pinned = pin(&bytes, tree, run)?;
        mount.driver = pinned;
    }
    Ok(Prepared {
        mount,
        warnings: Warnings::default(),
        summary: summary.into(),
        index: None,
    })
}

/// The directory of the kernel's that a library is, if it is one: device and inode.
type Tree = Option<(u64, u64)>;

fn identity(tree: Option<&OwnedFd>) -> Result<Tree> {
    let identity = |tree| Ok(kernel::identity(&kernel::status(tree, None)?));
    tree.map(identity).transpose()
}

/// What stands behind the bytes of a run's copy: which tree the library is, so that all processes
/// have the same one or none.
const TAIL: usize = 32;

/// How that begins.
const MARK: u64 = u64::from_be_bytes(*b"culvert\0");

fn tail(tree: Tree) -> [u8; TAIL] {
    let (device, inode) = tree.unwrap_or_default();
    let words = [MARK, u64::from(tree.is_some()), device, inode];
    let mut bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    core::array::from_fn(|_| bytes.next().unwrap_or_default())
}

/// The library in a copy that has these `bytes`, and its tree; of any other file nothing is said.
fn parts(bytes: &[u8]) -> (&[u8], Option<Tree>) {
    let Some((library, tail)) = bytes.split_last_chunk::<TAIL>() else {
        return (bytes, None);
    };
    let (words, _) = tail.as_chunks();
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let words: [u64; 4] = core::array::from_fn(|_| words.next().unwrap_or_default());
    match words {
        [MARK, 0, ..] => (library, Some(None)),
        [MARK, _, device, inode] => (library, Some(Some((device, inode)))),
        _ => (bytes, None),
    }
}

/// Puts `bytes`, of a library that is this `tree`, into a file of the run's own: what all of its
/// programs load, whatever becomes of the library.
fn pin(bytes: &[u8], tree: Tree, run: &[u8]) -> Result<String> {
    let run = core::str::from_utf8(run).map_err(|_| Errno::EILSEQ)?;
    for number in 0..u16::MAX {
        let path = format!("{run}/library.{number}");
        let file = match create_new(path.as_bytes()) {
            Err(Errno::EEXIST) => continue,
            file => file?,
        };
        for mut rest in [bytes, &tail(tree)] {
            while !rest.is_empty() {
                rest = rest.get(fs::write(&file, rest)?..).unwrap_or_default();
            }
        }
        return Ok(path);
    }
    Err(Errno::EMFILE.into())
}

fn load(bytes: &[u8]) -> Result<Driver> {
    placed::load(&Object::read(bytes)?, provided::address)
}

/// The functions of each copy that this process has loaded, and its tree: what stays for as long as
/// it lives is loaded once, however often `init` fails.
static LOADED: Mutex<Vec<(String, Driver, Option<Tree>)>> = Mutex::new(Vec::new());

/// Those of the run's copy at `path`.
fn loaded(path: &str) -> Result<(Driver, Option<Tree>)> {
    let mut all = LOADED.lock();
    if let Some((_, driver, tree)) = all.iter().find(|(known, ..)| known == path) {
        return Ok((*driver, *tree));
    }
    let file = open_read(path.as_bytes())?;
    let found = trust::kept(file.raw()).map_err(|why| {
        Error::because(
            why.errno(),
            format!("its copy in the run directory is not the run's: {why}"),
        )
    })?;
    let bytes = read(&file, found.st_size as u64, MOST + TAIL as u64)?;
    let (library, tree) = parts(&bytes);
    let driver = load(library)?;
    all.push((path.into(), driver, tree));
    Ok((driver, tree))
}

/// In every process that uses the mount.
pub(crate) fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    provided::keep_by(environment.keeper);
    let (driver, prepared) = loaded(&mount.driver)?;
    let library = Library::begin(driver, mount)?;
    let tree = library.tree()?;
    let found = identity(tree.as_ref())?;
    if prepared.is_some_and(|prepared| prepared != found) {
        return Err(Error::because(
            Errno::ESTALE,
            "the library is another directory than when the command was started",
        ));
    }
    let (Some(root), Some(which)) = (tree, found) else {
        return Ok(Box::new(PathAdapter::new(library)));
    };
    let options = passthrough::Options {
        read_only: mount.read_only() || library.says_read_only(),
        // There may be layers above, which are to hear of what is not about bytes.
        backed: true,
        ..passthrough::Options::default()
    };
    let keeper = environment.keeper;
    let tree = passthrough::PassthroughFs::new(root, which, options, keeper, None, None);
    // `finalize` is not called in programs: what the tree needs of the library stays.
    core::mem::forget(library);
    Ok(Box::new(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_which_tree_its_library_is() {
        for tree in [None, Some((1, u64::MAX)), Some((0, 0))] {
            let copy = [&b"library"[..], &tail(tree)].concat();
            assert_eq!(parts(&copy), (&b"library"[..], Some(tree)));
        }
        for other in [&b""[..], b"short", &[7; TAIL], &[0; TAIL + 5]] {
            assert_eq!(parts(other), (other, None));
        }
    }
}
