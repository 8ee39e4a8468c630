//! The 512-byte header of a member (POSIX pax(1), "ustar Interchange Format"; GNU tar manual,
//! "Basic Tar Format").

use super::number;
use crate::archive::format::device_number;
use alloc::vec::Vec;

/// Everything in a tar archive comes in blocks of this many bytes.
pub const BLOCK: usize = 512;

/// A block.
pub type Block = [u8; BLOCK];

/// A header whose checksum is right.
pub struct Header<'a>(&'a Block);

/// Sum of all bytes of `block`, the checksum field counted as spaces; once with unsigned bytes,
/// once with signed ones, as some old programs had it.
fn sums(block: &Block) -> (i64, i64) {
    let (mut unsigned, mut high) = (0u32, 0u32);
    for &byte in block {
        unsigned += u32::from(byte);
        high += u32::from(byte >> 7);
    }
    for &byte in &block[148..156] {
        unsigned = unsigned + 32 - u32::from(byte);
        high -= u32::from(byte >> 7);
    }
    let unsigned = i64::from(unsigned);
    (unsigned, unsigned - 256 * i64::from(high))
}

/// Up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0);
    &field[..end.unwrap_or(field.len())]
}

impl<'a> Header<'a> {
    /// `block` as a header, if its checksum is right.
    pub fn new(block: &'a Block) -> Option<Self> {
        let stated = number::parse(&block[148..156])?;
        let (unsigned, signed) = sums(block);
        // 256 is the sum of a block of zeroes: an empty field must not make one a header.
        ((stated == unsigned || stated == signed) && block[0..148] != [0; 148])
            .then_some(Self(block))
    }

    /// The type of the member.
    pub fn kind(&self) -> u8 {
        self.0[156]
    }

    /// Name, with the prefix of ustar.
    pub fn name(&self) -> Vec<u8> {
        let name = text(&self.0[0..100]);
        let prefix = if self.is_ustar() {
            // star keeps times behind a shorter prefix, and says so at the end.
            let end = if &self.0[508..512] == b"tar\0" {
                476
            } else {
                500
            };
            text(&self.0[345..end])
        } else {
            &[]
        };
        let mut full = Vec::with_capacity(prefix.len() + 1 + name.len());
        if !prefix.is_empty() {
            full.extend_from_slice(prefix);
            full.push(b'/');
        }
        full.extend_from_slice(name);
        full
    }

    /// Target of a link.
    pub fn target(&self) -> &'a [u8] {
        text(&self.0[157..257])
    }

    fn is_ustar(&self) -> bool {
        &self.0[257..263] == b"ustar\0"
    }

    /// Permission bits; 0 when the field makes no sense.
    pub fn permissions(&self) -> u32 {
        number::parse(&self.0[100..108]).unwrap_or(0) as u32 & 0o7777
    }

    /// Owner; none when the field makes no sense.
    pub fn uid(&self) -> Option<u32> {
        u32::try_from(number::parse(&self.0[108..116])?).ok()
    }

    /// Group; none when the field makes no sense.
    pub fn gid(&self) -> Option<u32> {
        u32::try_from(number::parse(&self.0[116..124])?).ok()
    }

    /// Bytes that follow the header; none when the field makes no sense.
    pub fn size(&self) -> Option<u64> {
        u64::try_from(number::parse(&self.0[124..136])?).ok()
    }

    /// Time of the last change, seconds.
    pub fn mtime(&self) -> i64 {
        number::parse(&self.0[136..148]).unwrap_or(0)
    }

    /// `st_rdev` of a device (`makedev`, in the kernel's encoding for user space).
    pub fn rdev(&self) -> u64 {
        let part = |field: &[u8]| number::parse(field).unwrap_or(0) as u64;
        let (major, minor) = (part(&self.0[329..337]), part(&self.0[337..345]));
        device_number(major, minor)
    }

    /// GNU's old sparse format: the parts in the header, whether more blocks of them follow, and
    /// the size of the file.
    pub fn old_sparse(&self, parts: &mut Vec<(u64, u64)>) -> Option<(bool, u64)> {
        sparse_parts(&self.0[386..482], parts)?;
        let size = u64::try_from(number::parse(&self.0[483..495])?).ok()?;
        Some((self.0[482] != 0, size))
    }
}

/// A block of further parts of a sparse file: adds them to `parts` and tells whether another
/// follows.
pub fn more_sparse(block: &Block, parts: &mut Vec<(u64, u64)>) -> Option<bool> {
    sparse_parts(&block[..504], parts)?;
    Some(block[504] != 0)
}

fn sparse_parts(field: &[u8], parts: &mut Vec<(u64, u64)>) -> Option<()> {
    for part in field.chunks_exact(24) {
        if part[12] == 0 {
            break;
        }
        let offset = u64::try_from(number::parse(&part[..12])?).ok()?;
        let length = u64::try_from(number::parse(&part[12..])?).ok()?;
        parts.push((offset, length));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_the_kernels() {
        let mut block = [0; BLOCK];
        block[329..337].copy_from_slice(b"0000010\0");
        block[337..345].copy_from_slice(b"0000003\0");
        assert_eq!(Header(&block).rdev(), 0x803);
        block[337..345].copy_from_slice(b"0001001\0");
        assert_eq!(Header(&block).rdev(), (0x201 & 0xff) | 8 << 8 | 0x200 << 12);
    }

    #[test]
    fn a_wrong_checksum_is_no_header() {
        let mut block = [0; BLOCK];
        block[0] = b'a';
        let sum = std::format!("{:06o}\0 ", 256 + u32::from(b'a'));
        block[148..156].copy_from_slice(sum.as_bytes());
        assert!(Header::new(&block).is_some());
        block[1] ^= 1;
        assert!(Header::new(&block).is_none());
        assert!(Header::new(&[0; BLOCK]).is_none());
    }
}
