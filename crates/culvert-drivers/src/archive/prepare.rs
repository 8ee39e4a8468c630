//! The two moments of an archive mount: `prepare` in the launcher, `open` in every process.

use super::build::{self, Progress};
use super::bytes::{Bytes, FileBytes};
use super::cache::{self, IndexLocation};
use super::filesystem::ArchiveFs;
use super::host;
use super::index::{Image, Index};
use super::kind::{self, Kind};
use super::options::{Keep, Options, Owner};
use super::warning::Warnings;
use crate::{Environment, Prepared, PreparedIndex};
use alloc::{boxed::Box, format, sync::Arc};
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};

/// Checks source and options, makes the index or finds it in the cache, and returns the mount as it
/// is to travel: with the index's path and the owner filled in, so that every process sees the
/// same.
pub fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    let mut options = Options::parse(mount)?;
    if let Keep::Path(path) = &mut options.index
        && path.first() != Some(&b'/')
    {
        // Other processes will have other working directories.
        let mut absolute = host::current_directory()?;
        absolute.push(b'/');
        absolute.append(path);
        *path = absolute;
    }
    let (archive, _) = FileBytes::open(&mount.source)?;
    let archive = Arc::new(archive);
    let mut notes = Warnings::default();
    let mut obtain = |place| cache::obtain(&archive, place, options.damaged, progress);
    let run = environment.run_directory.map(IndexLocation::Directory);
    let ready = match (&options.index, environment.cache_directory, run) {
        (Keep::Path(path), ..)
            if host::status_of(path).is_ok_and(|status| status.is_directory()) =>
        {
            obtain(IndexLocation::Directory(path))
        }
        (Keep::Path(path), ..) => obtain(IndexLocation::File(path)),
        (Keep::Run, _, Some(run)) => obtain(run),
        (Keep::Cache, Some(directory), run) => {
            match (obtain(IndexLocation::Directory(directory)), run) {
                (Err(error), Some(run)) if cache::is_of_place(error.errno()) => {
                    notes.add(b"", format!("the index is not kept: {error}"));
                    obtain(run)
                }
                (outcome, _) => outcome,
            }
        }
        (Keep::Cache, None, Some(run)) => obtain(run),
        (_, _, None) => Err(Error::because(
            Errno::EINVAL,
            "there is no directory to keep the index in",
        )),
    }?;
    let mut warnings = ready.index.warnings();
    for note in notes.first {
        warnings.add(&note.member, note.text);
    }
    let header = *ready.index.header();
    let summary = format!(
        "{}, {} nodes, {} bytes of content",
        Kind::of(&header)?.name(),
        ready.index.nodes(),
        header.content
    );
    let mut travelling = mount.clone();
    travelling.options.retain(|(name, _)| name != "index");
    travelling
        .options
        .push(("index".into(), ready.path.clone()));
    let (user, group) = (host::effective_user(), host::effective_group());
    for (name, owner, own) in [("uid", options.uid, user), ("gid", options.gid, group)] {
        if owner == Owner::Unset && user != 0 {
            travelling
                .options
                .push((name.into(), format!("{own}").into_bytes()));
        }
    }
    // Also finds out whether `subdir` is there.
    ArchiveFs::new(archive, ready.index, &options)?;
    Ok(Prepared {
        mount: travelling,
        warnings,
        summary,
        index: Some(PreparedIndex {
            path: ready.path,
            built: ready.built,
        }),
    })
}

/// The file system of a mount that [`prepare`] made ready. `EIO` when the archive has changed
/// since; an index that is missing or damaged is made again, in memory.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let options = Options::parse(mount)?;
    let (archive, status) = FileBytes::open(&mount.source)?;
    let index = match &options.index {
        Keep::Path(path) => match Index::open(path) {
            Ok(index) => Some(index),
            // To make it again would take more of what is short.
            Err(error)
                if matches!(error.errno(), Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) =>
            {
                return Err(error.within("mapping the index"));
            }
            Err(_) => None,
        },
        _ => None,
    };
    let (archive, index) = match index {
        Some(index) => {
            let indexed = index.header().archive;
            if (indexed.size, indexed.mtime) != (archive.len(), status.mtime) {
                return Err(Error::because(
                    Errno::EIO,
                    "the archive has changed since the command was started",
                ));
            }
            (archive, index)
        }
        None => {
            let archive = Arc::new(archive);
            let parts = build::build(&archive, options.damaged, &mut |_| {})?;
            let index = Index::new(Image::Memory(parts.join()))?;
            // Nobody else has it: the build is over.
            let archive = Arc::into_inner(archive).ok_or(Errno::EBUSY)?;
            (archive, index)
        }
    };
    // A touch of what was cut off is an error in a program, whose faults the library catches. It
    // would be the end of a server, for which the kernel copies.
    let in_program = environment.keeper.adopt.is_some();
    let archive = match Kind::of(index.header())? {
        // All is handed out in place: no descriptor that the program could trip over.
        Kind::Serial(_, None) | Kind::Iso if in_program => archive.mapped().closed_if_mapped(),
        Kind::Zip if in_program => archive.mapped(),
        // Nothing can be handed out in place.
        _ => archive,
    };
    let archive = archive.kept(environment.keeper);
    Ok(Box::new(ArchiveFs::new(
        Arc::new(archive),
        index,
        &options,
    )?))
}

/// Whether `path` is an archive that this driver reads, by its content.
pub fn detect(path: &[u8]) -> Result<&'static str> {
    let (archive, _) = FileBytes::open(path)?;
    let bytes: &dyn Bytes = &archive;
    Ok(kind::detect(bytes)?.name())
}
