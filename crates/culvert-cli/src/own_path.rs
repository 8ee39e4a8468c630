//! Where the command itself lies.

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// This command's own file, asked of the kernel once.
pub fn own_path() -> io::Result<&'static Path> {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let own = std::env::current_exe()?;
    Ok(OWN.get_or_init(|| own))
}
