//! FUSE servers that are shared objects: sources for libfuse that were compiled against Culvert's
//! headers, whose `main` is called in a process of its own.

use crate::{
    config, elf,
    failure::{Failure, shown},
    own_path::own_path,
};
use culvert::mount::is_library;
use rustix::fs::OFlags;
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The word with which the command becomes such a server. Not for users.
pub const PROGRAM: &str = "run-fuse-program";

/// The bytes at `path`, unless it is something else that has no end or waits for somebody.
fn regular_file(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = fs::File::options();
    let mut file = options
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    let is_regular = file.metadata().ok()?.is_file();
    (is_regular && file.read_to_end(&mut bytes).is_ok()).then_some(bytes)
}

/// What a file is to a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A driver of `culvert/driver.h`.
    Driver,
    /// A shared object with a `main`: a FUSE server.
    Server,
    /// Neither.
    Other,
}

/// What the file at `path` is.
pub fn kind(path: impl AsRef<Path>) -> Kind {
    match regular_file(path.as_ref()) {
        Some(bytes)
            if [&b"culvert_driver"[..], b"culvert_driver_for"]
                .iter()
                .any(|name| elf::defines(&bytes, name)) =>
        {
            Kind::Driver
        }
        Some(bytes) if elf::defines(&bytes, b"main") => Kind::Server,
        _ => Kind::Other,
    }
}

fn is_program(path: &Path) -> bool {
    kind(path) == Kind::Server
}

/// The type of the server that library `driver` is; none: it is none.
pub fn served_type(driver: &str) -> Option<String> {
    if !is_library(driver) {
        return None;
    }
    let path = fs::canonicalize(driver)
        .ok()
        .filter(|path| is_program(path))?;
    Some(format!("fuse.{}", path.to_str()?))
}

/// The words that start server `name`, if it is a shared object.
pub fn words(name: &str) -> Result<Option<Vec<OsString>>, Failure> {
    if !name.contains('/') || !is_program(Path::new(name)) {
        return Ok(None);
    }
    let own =
        own_path().map_err(|error| Failure::new(format!("cannot tell what a host is: {error}")))?;
    Ok(Some(vec![own.into(), PROGRAM.into(), name.into()]))
}

/// Becomes the server that `words` name and give words to; comes back only with the reason why not.
pub fn run(words: &[OsString]) -> Failure {
    let path = Path::new(words.first().map_or(OsStr::new(""), OsString::as_os_str));
    let name = path.file_name().unwrap_or_default();
    let name = std::ffi::CString::new(name.as_encoded_bytes()).unwrap_or_default();
    let _ = culvert_sys::process::set_name(&name);
    let api = match config::library() {
        Ok(api) => api,
        Err(failure) => return failure,
    };
    let error = culvert_library::run(path, &api, words);
    Failure::new(format!("{}: {error}", shown(path)))
}
