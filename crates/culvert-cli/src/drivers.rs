//! `culvert drivers`: the file systems there are.

use crate::failure::{Failure, shown};

/// The names of the drivers.
pub const NAMES: &[&str] = &["archive"];

const ARCHIVE: &str = "\
archive - an archive as a directory, read in place (read-only)

  Source    a regular file: tar, tar.gz, tar.zst, tar.xz, tar.bz2 or zip,
            recognised by its content
  Index     built once, cached on disk by the archive's content

  Options   ro   read-only; it always is
";

/// The list of drivers, or what there is to say about `name`.
pub fn describe(name: Option<&str>) -> Result<String, Failure> {
    match name {
        None => Ok(
            "archive   tar, tar.gz, tar.zst, tar.xz, tar.bz2, zip: read in place, read-only\n"
                .into(),
        ),
        Some("archive") => Ok(ARCHIVE.into()),
        Some(other) => Err(Failure::new(format!("unknown type \"{}\"", shown(other)))
            .advice(format!("types of this version: {}", NAMES.join(", ")))),
    }
}
