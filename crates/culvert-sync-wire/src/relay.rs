//! What a program tells the relay of its host (`culvert-sync/src/relay.rs`), which speaks TLS for
//! it: the service that it means. The answer is an error number, or 0, of 32 bits; then the
//! connection is the service's.

use alloc::{format, vec::Vec};
use core::net::SocketAddr;

/// How it begins.
const BEGINS: &str = "CvR1 ";
/// The longest one, bytes.
pub const LONGEST_WISH: usize = 256;
/// Bytes of an answer.
pub const TOLD: usize = 4;

/// The service at `address` whose public key is `key`.
pub fn wished(address: SocketAddr, key: &str) -> Vec<u8> {
    format!("{BEGINS}{address} {key}\n").into_bytes()
}

/// Which service `bytes` mean: its address and its public key.
pub fn wish(bytes: &[u8]) -> Option<(SocketAddr, &str)> {
    let text = core::str::from_utf8(bytes).ok()?;
    let text = text.strip_prefix(BEGINS)?.strip_suffix('\n')?;
    let (address, key) = text.split_once(' ')?;
    Some((address.parse().ok()?, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_come_back_as_they_were() {
        let address = "[fe80::1]:513".parse().unwrap();
        assert_eq!(wish(&wished(address, "3c")), Some((address, "3c")));
        for wrong in [
            "CvR1 1.2.3.4:5 3c",
            "CvR1 1.2.3.4:5\n",
            "CvR2 1.2.3.4:5 3c\n",
            "\n",
        ] {
            assert_eq!(wish(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
