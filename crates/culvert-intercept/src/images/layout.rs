//! How an image lies in a file and in memory.
//!
//! The file is the object's ELF file, byte for byte at its offsets, but for the changes in its
//! code; a header and the chunk follow, from a page's beginning on. In memory they lie behind the
//! object, as far from its beginning as in the file:
//!
//! ```text
//! | object: headers, code (of the image), data | header, chunk (of the image) |
//! 0                                       span   chunk_offset
//! ```
//!
//! So one mapping of the image serves for headers, code and chunk, where the code lies in memory as
//! in the file, too.

use super::breakpoints::{Places, Sums};
use crate::elf::{Image, LOAD, ProgramHeader};
pub use crate::object::{Key, Layout};
use crate::{Interest, chunk, sites::Site, stub::Slots, user};
use alloc::vec::Vec;
use culvert_sys::plain::{Packed, Plain};
use culvert_sys::{PAGE, PAGE64};

/// Changes with the format of images; what stubs are made of changes the store's name.
const MAGIC: [u8; 8] = *b"culvimg4";
/// Bytes of a large page.
pub const LARGE_PAGE: u64 = 2 << 20;

/// A number for the first page of a program that is mapped at `start`, where its segments and its
/// build-id stand; none where it cannot be read. What is executed under the name of a file is that
/// file if both agree.
pub fn first_page(start: usize) -> Option<u64> {
    /// So that it takes no further page of the stack.
    const PART: usize = 512;
    let mut sum = 1;
    for at in (start..start + PAGE).step_by(PART) {
        let mut part = [0; PART];
        user::copy_in(&mut part, at).ok()?;
        let (words, _) = part.as_chunks::<8>();
        sum = words.iter().fold(sum, |sum: u64, word| {
            (sum.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
    }
    Some(sum)
}

/// What stands before the chunk.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    magic: [u8; 8],
    key: Key,
    layout: Layout,
    /// Of the object's own code, at `places`.
    sums: Sums,
    places: Places,
    /// The link-time address of the build-id, which is its place in the file; its length and its
    /// bytes.
    build_id_at: u64,
    build_id_length: u64,
    build_id: [u8; 64],
}

// SAFETY: words and bytes.
unsafe impl Plain for Header {}
// SAFETY: words and bytes by eights, and nothing between them.
unsafe impl Packed for Header {}

impl Header {
    /// Bytes of a header, and room that keeps what follows aligned.
    pub const SIZE: usize = size_of::<Self>().next_multiple_of(64);

    /// Whether it is that of the image of the file `key`, with this layout.
    pub fn is_of(&self, key: &Key, layout: &Layout) -> bool {
        self.magic == MAGIC && self.key == *key && self.layout == *layout
    }

    /// The file whose image it is of, and its layout.
    pub fn of(&self) -> (&Key, &Layout) {
        (&self.key, &self.layout)
    }

    /// Whether nobody has a breakpoint in `code`, the object's own, whole pages as they are mapped.
    pub fn is_untouched(&self, code: &[u8]) -> bool {
        self.places.sums(code) == self.sums
    }

    /// Where the object has its build-id, as a link-time address and in its file, and the build-id.
    pub fn build_id(&self) -> (u64, &[u8]) {
        let length = (self.build_id_length as usize).min(self.build_id.len());
        (
            self.build_id_at,
            self.build_id.get(..length).unwrap_or_default(),
        )
    }
}

/// An image that is to be written: the object's file with `changes`, at offsets in it, and from
/// `layout.chunk_offset` on the bytes of `tail`.
pub struct Planned {
    pub layout: Layout,
    pub build_id: Vec<u8>,
    pub changes: Vec<(u64, Vec<u8>)>,
    pub tail: Vec<u8>,
    /// Whether it is a loader, as far as is known: all processes map those.
    pub is_loader: bool,
}

impl Planned {
    /// What the image of an object of `length` bytes takes, in large pages where it fills half of
    /// one at least, or is a loader: the bytes in all, and the offsets of large pages.
    pub fn pages(&self, length: u64) -> (u64, Vec<u64>) {
        let chunk = self.layout.chunk_offset;
        let end = chunk + self.tail.len() as u64;
        let part = |start: u64, end: u64, page: u64| {
            end.min(page + LARGE_PAGE).saturating_sub(start.max(page))
        };
        let (mut taken, mut large) = (0, Vec::new());
        for page in (0..end).step_by(LARGE_PAGE as usize) {
            // Between the object's bytes and the chunk there may be a hole.
            let filled = part(0, length, page) + part(chunk, end, page);
            if filled >= LARGE_PAGE / 2 || (self.is_loader && filled > 0) {
                large.push(page);
                taken += LARGE_PAGE;
            } else {
                taken += filled;
            }
        }
        (taken, large)
    }
}

/// Why an object has no image.
pub type Reason = &'static str;

/// The image of the ELF file `file`, whose sites `wanted` are to be rewritten; each process has its
/// slots at `slots`.
pub fn plan(
    key: &Key,
    file: &[u8],
    image: &Image<'_>,
    wanted: &[(Site, Interest)],
    slots: u64,
) -> Result<Planned, Reason> {
    let (code, span) = shape(image)?;
    let page = |value: u64| value & !(PAGE64 - 1);
    let layout_without_chunk = Layout {
        span,
        code_offset: page(code.offset),
        code_address: page(code.address),
        code_length: (code.address - page(code.address) + code.file_size).next_multiple_of(PAGE64),
        chunk_offset: span.max((file.len() as u64).next_multiple_of(PAGE64)),
        chunk_length: 0,
        slots,
    };
    let base = layout_without_chunk.chunk_offset + Header::SIZE as u64;
    let written = chunk::write(wanted, 0, &Slots::fixed(slots), base);
    if written.out_of_reach > 0 {
        return Err("something it refers to is out of the stubs' reach");
    }
    let length = (Header::SIZE + written.bytes.len()) as u64;
    let layout = Layout {
        chunk_length: length.next_multiple_of(PAGE64),
        ..layout_without_chunk
    };
    let id = image.build_id().ok_or("it has no build-id")?;
    let build_id_at = address_of(image, id).ok_or("its build-id is not mapped")?;
    let offset = (id.as_ptr() as usize).wrapping_sub(file.as_ptr() as usize) as u64;
    if build_id_at != offset || build_id_at >= page(code.address) {
        return Err("its build-id is not among its headers");
    }
    let own = layout.code_offset as usize..(layout.code_offset + layout.code_length) as usize;
    let own = file.get(own.start..own.end.min(file.len()));
    let places = Places::of(file, image, layout.code_address);
    let is_loader = places.are_known();
    let mut header = Header {
        magic: MAGIC,
        key: *key,
        layout,
        sums: places.sums(own.ok_or("its code is not in the file")?),
        places,
        build_id_at,
        build_id_length: id.len() as u64,
        build_id: [0; 64],
    };
    header
        .build_id
        .iter_mut()
        .zip(id)
        .for_each(|(to, from)| *to = *from);
    let in_file = |change: &chunk::Change| {
        let offset = change.start(0) - code.address + code.offset;
        (offset, change.new_bytes().to_vec())
    };
    let mut tail = Vec::from(header.bytes());
    tail.resize(Header::SIZE, 0);
    tail.extend_from_slice(&written.bytes);
    tail.resize(layout.chunk_length as usize, 0);
    Ok(Planned {
        layout,
        build_id: id.into(),
        changes: written.changes.iter().map(in_file).collect(),
        tail,
        is_loader,
    })
}

/// The only executable segment of a position-independent object, and how many bytes its segments
/// take in memory.
fn shape(image: &Image<'_>) -> Result<(ProgramHeader, u64), Reason> {
    const DYNAMIC: u16 = 3;
    /// So far behind the object's beginning its chunk may lie.
    const LARGEST: u64 = 64 << 20;
    let loads = || image.headers.iter().filter(|header| header.kind == LOAD);
    let mut codes = loads().filter(|load| load.flags & 1 != 0);
    let (Some(code), None) = (codes.next(), codes.next()) else {
        return Err("it has not one executable segment");
    };
    let lowest = loads().map(|load| load.address).min();
    let end = loads().map(|load| load.address.saturating_add(load.memory_size));
    let end = end.max().unwrap_or(0);
    if image.kind != DYNAMIC || lowest.is_none_or(|lowest| lowest >= PAGE64) {
        return Err("it does not begin at address 0");
    }
    if code.offset < PAGE64 {
        // ld.so maps it with all of the object, before there is room behind that.
        return Err("its code is mapped first");
    }
    if code.file_size > code.memory_size
        || code.flags & 2 != 0
        || code.offset % PAGE64 != code.address % PAGE64
    {
        return Err("its code is mapped in an unusual way");
    }
    if loads().any(|load| load.address < code.address && load.flags & 2 != 0) {
        // What lies below the code is mapped to be read.
        return Err("data lies before its code");
    }
    if end > LARGEST {
        return Err("it takes too much memory");
    }
    Ok((*code, end.next_multiple_of(PAGE64)))
}

/// The link-time address of `part`, which was taken from `image`.
fn address_of(image: &Image<'_>, part: &[u8]) -> Option<u64> {
    let part = part.as_ptr() as usize;
    image.pieces.iter().find_map(|piece| {
        let offset = part.checked_sub(piece.bytes.as_ptr() as usize)?;
        (offset < piece.bytes.len()).then(|| piece.address + offset as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of an object with such segments: flags, address and bytes in memory.
    fn shape_of(segments: &[(u32, u64, u64)]) -> Result<u64, Reason> {
        let header = |&(flags, address, memory_size): &(u32, u64, u64)| ProgramHeader {
            kind: LOAD,
            flags,
            offset: address,
            address,
            file_size: PAGE64,
            memory_size,
        };
        let image = Image {
            kind: 3,
            entry: 0,
            headers: segments.iter().map(header).collect(),
            pieces: Vec::new(),
            bias: 0,
        };
        shape(&image).map(|(_, span)| span)
    }

    #[test]
    fn objects_of_unusual_shapes_have_no_image() {
        const READ: u32 = 4;
        const WRITE: u32 = 6;
        const CODE: u32 = 5;
        let headers = (READ, 0, PAGE64);
        let code = (CODE, PAGE64, PAGE64);
        let data = |size| (WRITE, 2 * PAGE64, size);
        assert_eq!(shape_of(&[headers, code, data(1)]), Ok(3 * PAGE64));
        let largest = (64 << 20) - 2 * PAGE64;
        assert_eq!(shape_of(&[headers, code, data(largest)]), Ok(64 << 20));
        assert!(shape_of(&[headers, code, data(largest + 1)]).is_err());
        assert!(shape_of(&[code]).is_err());
        assert!(shape_of(&[headers, code, (CODE, 2 * PAGE64, PAGE64)]).is_err());
        let data_first = [(READ, 0, 1), (WRITE, PAGE64, 1), (CODE, 2 * PAGE64, PAGE64)];
        let reason = Err("data lies before its code");
        assert_eq!(shape_of(&data_first), reason);
        let writable_headers = [(WRITE, 0, PAGE64), code];
        assert_eq!(shape_of(&writable_headers), reason);
    }
}
