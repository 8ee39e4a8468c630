//! Where indexes are kept: one file per archive, named by its identity, found again after a move or
//! a faithful copy of the archive.

use super::build::{self, Progress};
use super::bytes::FileBytes;
use super::format::{Identity, Parts, VERSION};
use super::index::Index;
use super::{format as image, hash, host};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use culvert::{Errno, Error, Result};

/// Where the index of an archive is to lie.
#[derive(Clone, Copy, Debug)]
pub enum IndexLocation<'a> {
    /// In this directory, made when it is missing, under a name of its own.
    Directory(&'a [u8]),
    /// In this file.
    File(&'a [u8]),
}

/// An index that is ready.
pub struct Ready {
    /// The index.
    pub index: Index,
    /// The file that holds it.
    pub path: Vec<u8>,
    /// It was made now, not found.
    pub built: bool,
}

/// Largest index whose checksum is verified at every start: 0.2 ms. Of larger ones only the header
/// is, and every record when it is used.
const VERIFIED: u64 = 2 << 20;

/// The index of `archive` at `place`: the one that lies there when it is trusted, whole and of this
/// archive, else a new one, stored there atomically.
pub fn obtain(
    archive: &Arc<FileBytes>,
    place: IndexLocation<'_>,
    tolerant: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ready> {
    let identity = build::identify(archive)?;
    let make = &mut || build::build(archive, tolerant, progress);
    find_or_make(&identity, place, (tolerant, ""), make)
}

/// As [`obtain`], of what has this identity. `variant` is what else would make another index of it,
/// as the name of a file has it.
pub fn find_or_make(
    identity: &Identity,
    place: IndexLocation<'_>,
    (tolerant, variant): (bool, &str),
    make: &mut dyn FnMut() -> Result<Parts>,
) -> Result<Ready> {
    let path = match place {
        IndexLocation::File(path) => path.to_vec(),
        IndexLocation::Directory(directory) => {
            let name = format!("/{}{variant}", file_name(identity, tolerant));
            [directory, name.as_bytes()].concat()
        }
    };
    if let Ok(index) = Index::open(&path)
        && index.header().archive == *identity
        && index.header().damaged == tolerant
        && (index.header().length > VERIFIED || index.verify())
    {
        return Ok(Ready {
            index,
            path,
            built: false,
        });
    }
    match place {
        IndexLocation::Directory(directory) => host::make_directories(directory)
            .map_err(|errno| Error::from(errno).within("the directory for indexes"))?,
        IndexLocation::File(path) => check_replaceable(path)?,
    }
    store(&path, &make()?)?;
    Ok(Ready {
        index: Index::open(&path)?,
        path,
        built: true,
    })
}

/// A file that the user named is replaced only when it is an index, or empty.
fn check_replaceable(path: &[u8]) -> Result<()> {
    let file = match host::open_read(path) {
        Ok(file) => file,
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(Error::from(errno).within("the index file")),
    };
    let mut magic = [0; image::MAGIC.len()];
    match host::read_at(&file, 0, &mut magic) {
        Ok(0) => Ok(()),
        Ok(_) if magic == image::MAGIC => Ok(()),
        _ => Err(Error::because(
            Errno::EEXIST,
            "option index: the file is there already and is no index; it is left alone",
        )),
    }
}

/// The name of an index file: what would make another index of it is in it.
fn file_name(identity: &Identity, tolerant: bool) -> String {
    let mut key = Vec::new();
    key.extend_from_slice(&identity.size.to_le_bytes());
    key.extend_from_slice(&identity.mtime.seconds.to_le_bytes());
    key.extend_from_slice(&identity.mtime.nanoseconds.to_le_bytes());
    key.push(u8::from(tolerant));
    let (left, right) = (hash::of_name(1, &key), identity.content);
    format!("{left:016x}{right:016x}.v{VERSION}")
}

/// Writes an index to `path` so that no reader ever sees half of it.
fn store(path: &[u8], parts: &Parts) -> Result<()> {
    let mut temporary = path.to_vec();
    temporary.extend_from_slice(
        format!(".{:x}-{:x}", host::process_number(), host::random()).as_bytes(),
    );
    // A file without a name leaves nothing behind when the process is killed while it writes.
    let unnamed = host::create_unnamed(path);
    let named = unnamed.is_err();
    let written = unnamed
        .or_else(|_| host::create_new(&temporary))
        .and_then(|file| {
            let written = parts
                .pieces()
                .try_for_each(|piece| host::write_all(&file, piece))
                // On disk before it has its name: a crash must not leave a file with holes that
                // looks whole.
                .and_then(|()| host::sync(&file))
                .and_then(|()| match named {
                    true => host::rename(&temporary, path),
                    false => host::name(&file, path).or_else(|errno| match errno {
                        // An index that is outdated or damaged is there: link(2) does not replace,
                        // rename(2) does.
                        Errno::EEXIST => host::name(&file, &temporary)
                            .and_then(|()| host::rename(&temporary, path)),
                        other => Err(other),
                    }),
                });
            if written.is_err() {
                let _ = host::unlink(&temporary);
            }
            written
        });
    written.map_err(|errno| Error::from(errno).within("storing the index"))
}

/// Whether an error is about the place of an index, not about the archive.
pub fn is_of_place(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EACCES
            | Errno::EPERM
            | Errno::EROFS
            | Errno::ENOSPC
            | Errno::EDQUOT
            | Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::EEXIST
    )
}
