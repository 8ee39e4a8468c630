//! Making a mount's source ready before the program starts, with a progress bar where that takes time.

use crate::failure::Failure;
use culvert::mount::Mount;

/// Builds what the driver of `mount` needs (an archive's index) unless it is there already.
pub fn prepare(mount: &Mount) -> Result<(), Failure> {
    let _ = mount;
    Ok(())
}
