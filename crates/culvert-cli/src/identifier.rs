//! Names that no other run has.

use crate::failure::Failure;
pub use culvert_launch::run_directory::is_identifier;

/// 16 hexadecimal digits that no other run has.
pub fn identifier() -> Result<String, Failure> {
    culvert_launch::run_directory::identifier()
        .map_err(|errno| Failure::new(format!("cannot get random bytes: {errno}")))
}
