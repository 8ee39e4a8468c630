//! `.eh_frame_hdr` and `.eh_frame`: what compilers tell unwinders, and us, of where functions begin
//! and end.
//!
//! Sources: LSB 5.0, "Exception Frames" (10.6.1) and "Exception Frame Header" (10.6.2), DWARF 5
//! section 6.4.1.

use crate::elf::{Image, array, half, long, word};
use alloc::vec::Vec;

/// The binary search table of `.eh_frame_hdr` and the frame descriptions it points to.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// `.eh_frame_hdr`'s address: what the entries are relative to.
    base: u64,
    /// Entries of two 4-byte values, function start and FDE, sorted by the first.
    table: &'a [[u8; 8]],
}

impl<'a> Frames<'a> {
    /// Those of an object. LSB 5.0, 10.6.2: version 1, encodings of the pointer to `.eh_frame`, of
    /// the count and of the table, then those.
    pub fn of(image: &Image<'a>) -> Option<Self> {
        let base = image.frame_header()?;
        let bytes = image.tail(base)?;
        // DW_EH_PE_udata4 count and a DW_EH_PE_datarel|sdata4 table: what every linker writes.
        let [1, pointer, 0x03, 0x3b] = array(bytes, 0)? else {
            return None;
        };
        let count = 4 + pointer_size(pointer)?;
        let entries = word(bytes, count)? as usize;
        let (table, _) = bytes.get(count + 4..)?.as_chunks::<8>();
        Some(Self {
            base,
            table: table.get(..entries)?,
        })
    }

    fn start(&self, index: usize) -> u64 {
        self.value(index, 0)
    }

    fn value(&self, index: usize, field: usize) -> u64 {
        let relative = self
            .table
            .get(index)
            .and_then(|entry| word(entry, field))
            .unwrap_or(0) as i32;
        self.base.wrapping_add_signed(relative.into())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The last function that starts at or before `address`, as start, end, and start of the next
    /// (or the last address there is).
    pub fn preceding(&self, image: &Image<'_>, address: u64) -> Option<(u64, u64, u64)> {
        // By difference from the base, as the linker sorted them.
        let relative = |entry: &[u8; 8]| word(entry, 0).unwrap_or(0) as i32 as i64;
        let wanted = address.wrapping_sub(self.base) as i64;
        let index = self
            .table
            .partition_point(|entry| relative(entry) <= wanted)
            .checked_sub(1)?;
        let start = self.start(index);
        let frame = Description::read(image, self.value(index, 4))?;
        let end = start.checked_add(frame.length)?;
        // The description of a signal's return code begins a byte before it, as unwinders look one
        // byte back for a caller (glibc, sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c).
        let start = start.checked_add(frame.signal.into())?;
        let next = if index + 1 < self.table.len() {
            self.start(index + 1)
        } else {
            u64::MAX
        };
        (start <= address && end <= next).then_some((start, end, next))
    }
}

/// The size of a DW_EH_PE-encoded pointer; `None` for the variable ones.
fn pointer_size(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        _ if encoding == 0xff => Some(0), // DW_EH_PE_omit
        0x00 | 0x04 | 0x0c => Some(8),    // absptr, udata8, sdata8
        0x02 | 0x0a => Some(2),
        0x03 | 0x0b => Some(4),
        _ => None,
    }
}

/// What an FDE says of a function.
struct Description {
    /// Bytes of code.
    length: u64,
    /// Whether it describes the return from a signal handler ('S').
    signal: bool,
}

impl Description {
    /// The FDE at `address`.
    fn read(image: &Image<'_>, address: u64) -> Option<Self> {
        let entry = Entry::read(image.tail(address)?)?;
        let back = word(entry.body, 0).filter(|back| *back != 0)?;
        let common = address
            .checked_add(entry.prefix as u64)?
            .checked_sub(back.into())?;
        let common = Common::read(image.tail(common)?)?;
        let size = pointer_size(common.encoding)?;
        let length = unsigned(entry.body.get(4 + size..)?, size)?;
        Some(Self {
            length,
            signal: common.signal,
        })
    }
}

/// A record of `.eh_frame`.
struct Entry<'a> {
    /// Bytes that the length field takes.
    prefix: usize,
    /// From the CIE id or pointer on.
    body: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (prefix, length) = match word(bytes, 0)? {
            u32::MAX => (12, usize::try_from(long(bytes, 4)?).ok()?),
            length => (4, length as usize),
        };
        let body = bytes.get(prefix..)?.get(..length)?;
        Some(Self { prefix, body })
    }
}

/// What a CIE says of the FDEs that refer to it (LSB 5.0, 10.6.1.1).
struct Common {
    /// The encoding of code pointers ('R').
    encoding: u8,
    /// Whether they describe returns from signal handlers ('S').
    signal: bool,
}

impl Common {
    /// The CIE at the start of `bytes`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let body = Entry::read(bytes)?.body;
        if word(body, 0)? != 0 {
            return None;
        }
        let version = *body.get(4)?;
        let augmentation = body.get(5..)?;
        let end = augmentation.iter().position(|byte| *byte == 0)?;
        let (augmentation, mut rest) = (&augmentation[..end], augmentation.get(end + 1..)?);
        let mut common = Self {
            encoding: 0,
            signal: false,
        }; // absolute pointers
        let Some((b'z', letters)) = augmentation.split_first() else {
            return augmentation.is_empty().then_some(common);
        };
        skip_leb128(&mut rest)?; // code alignment
        skip_leb128(&mut rest)?; // data alignment
        if version == 1 {
            rest = rest.get(1..)?; // return address register
        } else {
            skip_leb128(&mut rest)?;
        }
        skip_leb128(&mut rest)?; // length of the augmentation data
        for letter in letters {
            match letter {
                b'R' => {
                    common.encoding = *rest.first()?;
                    rest = rest.get(1..)?;
                }
                b'L' => rest = rest.get(1..)?,
                b'P' => rest = rest.get(1 + pointer_size(*rest.first()?)?..)?,
                b'S' => common.signal = true,
                b'B' => {}
                _ => return None,
            }
        }
        Some(common)
    }
}

fn skip_leb128(bytes: &mut &[u8]) -> Option<()> {
    let last = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    *bytes = bytes.get(last + 1..)?;
    Some(())
}

fn unsigned(bytes: &[u8], size: usize) -> Option<u64> {
    match size {
        2 => half(bytes, 0).map(u64::from),
        4 => word(bytes, 0).map(u64::from),
        8 => long(bytes, 0),
        _ => None,
    }
}

/// Appends the functions that a whole `.eh_frame` section at `address` describes, for files without
/// `.eh_frame_hdr`.
pub(crate) fn frame_functions(
    image: &Image<'_>,
    address: u64,
    size: u64,
    functions: &mut Vec<(u64, u64)>,
) {
    let Some(section) = usize::try_from(size)
        .ok()
        .and_then(|size| image.at(address, size))
    else {
        return;
    };
    let mut offset = 0;
    while let Some(entry) = section.get(offset..).and_then(Entry::read) {
        if entry.body.is_empty() {
            break; // the terminator
        }
        let Some(here) = address.checked_add(offset as u64) else {
            break;
        };
        offset += entry.prefix + entry.body.len();
        let Some(back) = word(entry.body, 0).filter(|back| *back != 0) else {
            continue;
        };
        let found = (|| {
            let field = here.checked_add(entry.prefix as u64)?;
            let common = Common::read(image.tail(field.checked_sub(back.into())?)?)?;
            let size = pointer_size(common.encoding)?;
            let value = unsigned(entry.body.get(4..)?, size)?;
            let start = match common.encoding & 0x70 {
                0x00 => value,
                // DW_EH_PE_pcrel
                0x10 if size == 4 => (field + 4).wrapping_add_signed((value as i32).into()),
                0x10 if size == 8 => (field + 4).wrapping_add(value),
                _ => return None,
            };
            let length = unsigned(entry.body.get(4 + size..)?, size)?;
            let signal = u64::from(common.signal);
            Some((start.checked_add(signal)?, length.checked_sub(signal)?))
        })();
        functions.extend(found);
    }
}
