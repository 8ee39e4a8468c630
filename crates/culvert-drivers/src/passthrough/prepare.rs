//! The two moments of a passthrough mount: `prepare` in the launcher, `open` in every process.

use super::by_path::ByPath;
use super::filesystem::PassthroughFs;
use super::kernel;
use super::kernel::identity;
use super::options::{self, Options};
use crate::descriptor::OwnedFd;
use crate::{Environment, Prepared, Progress, Warnings};
use alloc::{boxed::Box, string::String};
use culvert::path::PathAdapter;
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};
use culvert_sys::fd::BorrowedFd;

/// Checks source and options, and returns the mount with the source's identity added. `ENOTDIR`
/// when the source is no directory.
pub fn prepare(
    mount: &Mount,
    _environment: &Environment<'_>,
    _progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    Options::parse(mount)?;
    let root = kernel::open_root(&mount.source)?;
    let status = kernel::status(&root, None)?;
    // Below a directory that may not be searched nothing is ever found.
    kernel::access(&root, SEARCH).map_err(|error| {
        error.within("the directory may not be searched (no x permission for you)")
    })?;
    let mut travelling = mount.clone();
    let text = options::identity_text(identity(&status));
    travelling
        .options
        .push((options::IDENTITY.into(), text.into_bytes()));
    Ok(Prepared {
        mount: travelling,
        warnings: Warnings::default(),
        summary: String::from("a directory"),
        index: None,
    })
}

/// `X_OK`.
const SEARCH: u32 = 1;

/// The file system of a mount that [`prepare`] made ready. `ESTALE` when its source leads to
/// another directory by now.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let options = Options::travelled(mount)?;
    let (root, identity) = root(mount, &options, environment.source)?;
    let tree = PassthroughFs::new(
        root,
        identity,
        options,
        environment.keeper,
        environment.book,
        environment.open_nodes,
    );
    Ok(match options.paths {
        true => Box::new(PathAdapter::new(ByPath(tree))),
        false => Box::new(tree),
    })
}

/// The root: by the target where the kernel has bound the source there, else by the source. And
/// which directory it is.
fn root(mount: &Mount, options: &Options, held: Option<i32>) -> Result<(OwnedFd, (u64, u64))> {
    let place = match options.bound {
        true => &mount.target,
        false => &mount.source,
    };
    let root = match held {
        Some(held) => kernel::reopen(BorrowedFd::number(held), kernel::O_PATH)?,
        None => kernel::open_root(place)?,
    };
    let found = identity(&kernel::status(&root, None)?);
    match options.identity {
        Some(expected) if expected != found => Err(Error::because(
            Errno::ESTALE,
            "the source is another directory than when the command was started",
        )),
        _ => Ok((root, found)),
    }
}
