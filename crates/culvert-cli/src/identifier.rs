//! Names that no other run has.

use crate::failure::Failure;

/// 16 hexadecimal digits that no other run has.
pub fn identifier() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    // Up to 256 bytes are never short (getrandom(2)).
    culvert_sys::process::getrandom(&mut bytes, 0)
        .map_err(|error| Failure::new(format!("cannot get random bytes: {error}")))?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Whether `name` is one that [`identifier`] gives.
pub fn is_identifier(name: &[u8]) -> bool {
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}
