//! The loader service: `culvert extend`.

use crate::failure::{Failure, reason};
use culvert_server::loader::{Allowed, LIST, Limits, SOCKET, Service};
use std::{io, path::PathBuf};

/// `culvert extend`.
#[derive(Debug)]
pub struct Extend {
    /// The list of objects that may be loaded.
    pub list: PathBuf,
    /// What each user may have.
    pub limits: Limits,
}

impl Default for Extend {
    fn default() -> Self {
        Self {
            list: LIST.into(),
            limits: Limits::default(),
        }
    }
}

/// Serves in the foreground, until a signal ends it.
pub fn serve(wanted: &Extend) -> Result<u8, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("the loader service is root's"));
    }
    let service = Service::new(Allowed::new(&wanted.list), wanted.limits)
        .map_err(|why| Failure::new(format!("cannot load extensions: {why}")))?;
    let served = service.serve(|line| eprintln!("culvert: {line}"));
    served.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(format!("there is a service at {SOCKET}")),
        _ => Failure::new(format!("cannot serve at {SOCKET}: {}", reason(&error))),
    })?;
    Ok(0)
}
