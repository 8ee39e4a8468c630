//! `culvert memory`: where the bytes of file systems in memory lie.

use crate::base;
use crate::failure::{Failure, path, reason, shown};
use culvert_drivers::memory::list_regions;
use culvert_sys::trust;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `culvert memory regions`.
#[derive(Debug)]
pub struct Memory {
    /// Of which file system; none: which ones there are.
    pub memory: Option<OsString>,
    /// Of which file in it; none: of which files it consists.
    pub path: Option<OsString>,
}

/// Does it.
pub fn memory(wanted: &Memory) -> Result<u8, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &wanted.memory {
        None => {
            for image in images() {
                // One may end meanwhile, or be another version's.
                let _ = list(&image, None, &mut out);
            }
            Ok(())
        }
        Some(name) => list(&image(name)?, wanted.path.as_deref(), &mut out),
    };
    done.and_then(|()| out.flush().map_err(|error| Failure::new(reason(&error))))
        .map(|()| 0)
}

/// The shared file that `word` means.
fn image(word: &OsStr) -> Result<PathBuf, Failure> {
    let Some(name) = word.as_bytes().strip_prefix(b"memory:") else {
        return Ok(word.into());
    };
    let bases = base::of_user(trust::user()).into_iter();
    let mut named = bases.map(|base| base.join("memory").join(path(name)));
    named.find(|image| image.is_file()).ok_or_else(|| {
        Failure::new(format!("there is no file system {}", shown(word)))
            .advice("list those there are: culvert memory regions")
    })
}

/// The shared files of this user's: those with a name, and those of runs.
fn images() -> Vec<PathBuf> {
    let mut images = Vec::new();
    for base in base::of_user(trust::user()) {
        let entries = |directory: &Path| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            paths.sort();
            paths
        };
        for directory in entries(&base) {
            let named = directory.file_name() == Some(OsStr::new("memory"));
            let found = entries(&directory).into_iter().filter(|image| {
                let name = image.file_name().unwrap_or_default().as_bytes();
                image.is_file() && (named || name.starts_with(b"memory."))
            });
            images.extend(found);
        }
    }
    images
}

fn list(image: &Path, of: Option<&OsStr>, out: &mut impl Write) -> Result<(), Failure> {
    let listed = list_regions(image.as_os_str().as_bytes(), of.map(OsStr::as_bytes));
    let listed = listed.map_err(|error| {
        let path = of.map_or(String::new(), |of| format!("{} in ", shown(of)));
        Failure::new(format!("{path}{}: {error}", shown(image)))
    })?;
    let mut print = || {
        if of.is_none() {
            let [used, limit] = listed.used;
            writeln!(out, "{used} of {limit} bytes in use")?;
            for (path, size) in listed.paths.iter().zip(listed.sizes) {
                if let Some(path) = path {
                    out.write_all(format!("{size:>14}  ").as_bytes())?;
                    out.write_all(path)?;
                    writeln!(out)?;
                }
            }
        }
        for (region, path) in &listed.regions {
            let (offset, length, at) = (region.offset, region.length, region.at);
            write!(out, "{offset:>14} {length:>14} {at:>14}  ")?;
            out.write_all(path)?;
            writeln!(out)?;
        }
        Ok(())
    };
    match print() {
        Err(error) if io::Error::kind(&error) == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new(reason(&error))),
    }
}
