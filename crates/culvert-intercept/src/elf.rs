//! What the engine has to know of an ELF object: where its code is, which file it is, and where its functions start.
//!
//! The same parser reads files and mapped objects: an [`Image`] is a set of pieces of the file, each with the address the
//! linker gave it. All addresses here are such link-time addresses. Everything that is read is outside data, so every read
//! is checked and nothing panics.
//!
//! Sources: System V ABI (gABI) chapters 4 and 5, x86-64 psABI, LSB 5.0 "Exception Frames" and `.eh_frame_hdr`.

use alloc::vec::Vec;

/// PT_LOAD.
pub const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;
/// PT_GNU_EH_FRAME: `.eh_frame_hdr`.
const FRAME_HEADER: u32 = 0x6474_e550;

/// A program header (`Elf64_Phdr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHeader {
    /// PT_*.
    pub kind: u32,
    /// PF_*; bit 0: executable.
    pub flags: u32,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Where it begins in memory, before the load bias.
    pub address: u64,
    /// How many bytes of it the file holds.
    pub file_size: u64,
    /// How many bytes it takes in memory.
    pub memory_size: u64,
}

/// A part of the file with the address the linker gave it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The link-time address of its first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the program runs them.
    pub executable: bool,
}

/// An ELF object, or as much of it as can be seen.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    /// ET_EXEC (2) or ET_DYN (3).
    pub kind: u16,
    /// `e_entry`.
    pub entry: u64,
    /// The program headers.
    pub headers: Vec<ProgramHeader>,
    /// What can be seen of the PT_LOADs.
    pub pieces: Vec<Piece<'a>>,
    /// Added to link-time addresses when the object was mapped; 0 for a file.
    pub bias: u64,
}

/// `N` bytes at `offset`.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn half(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// `e_type`, `e_entry` and the program headers of an x86-64 object whose first bytes are `bytes`.
pub fn header(bytes: &[u8]) -> Result<(u16, u64, Vec<ProgramHeader>), &'static str> {
    const SHORT: &str = "ELF header cut short";
    if bytes.get(..4) != Some(b"\x7fELF") {
        return Err("not an ELF object");
    }
    // ELFCLASS64, ELFDATA2LSB, EM_X86_64; x32 objects are ELFCLASS32.
    if bytes.get(4..6) != Some(&[2, 1]) || half(bytes, 18) != Some(62) {
        return Err("not a 64-bit x86-64 object");
    }
    let kind = half(bytes, 16).ok_or(SHORT)?;
    if kind != 2 && kind != 3 {
        return Err("neither an executable nor a shared object");
    }
    let entry = long(bytes, 24).ok_or(SHORT)?;
    let table = long(bytes, 32).ok_or(SHORT)?;
    let size = half(bytes, 54).ok_or(SHORT)? as u64;
    let count = half(bytes, 56).ok_or(SHORT)? as u64;
    if size < 56 {
        return Err("program headers of an unknown form");
    }
    let mut headers = Vec::new();
    for index in 0..count {
        let offset = table.checked_add(index * size).ok_or(SHORT)?;
        let header = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..)?.get(..56))
            .ok_or("program headers cut short")?;
        let at = |offset| long(header, offset).unwrap_or(0);
        headers.push(ProgramHeader {
            kind: word(header, 0).unwrap_or(0),
            flags: word(header, 4).unwrap_or(0),
            offset: at(8),
            address: at(16),
            file_size: at(32),
            memory_size: at(40),
        });
    }
    Ok((kind, entry, headers))
}

impl<'a> Image<'a> {
    /// The object in a file.
    pub fn of_file(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Self::new(
            bytes,
            |_| 0,
            |load| {
                let start = usize::try_from(load.offset).ok()?;
                let tail = bytes.get(start..)?;
                let size = usize::try_from(load.file_size).unwrap_or(usize::MAX);
                Some((load.address, &tail[..size.min(tail.len())]))
            },
        )
    }

    /// The object whose first bytes are `first`. `bias` finds out how far above its link-time addresses it is mapped, from the program headers. `visible`
    /// gives a part of a PT_LOAD that can be read, with its link-time address.
    pub fn new(
        first: &[u8],
        bias: impl FnOnce(&[ProgramHeader]) -> u64,
        mut visible: impl FnMut(&ProgramHeader) -> Option<(u64, &'a [u8])>,
    ) -> Result<Self, &'static str> {
        let (kind, entry, headers) = header(first)?;
        let mut pieces = Vec::new();
        for load in headers.iter().filter(|header| header.kind == LOAD) {
            if let Some((address, bytes)) = visible(load).filter(|(_, bytes)| !bytes.is_empty())
                && address.checked_add(bytes.len() as u64).is_some()
            {
                let executable = load.flags & 1 != 0;
                pieces.push(Piece {
                    address,
                    bytes,
                    executable,
                });
            }
        }
        let bias = bias(&headers);
        Ok(Self {
            kind,
            entry,
            headers,
            pieces,
            bias,
        })
    }

    /// The bytes from `address` to the end of its piece.
    pub fn tail(&self, address: u64) -> Option<&'a [u8]> {
        self.pieces.iter().find_map(|piece| {
            let offset = usize::try_from(address.checked_sub(piece.address)?).ok()?;
            piece.bytes.get(offset..).filter(|tail| !tail.is_empty())
        })
    }

    /// `length` bytes at `address`.
    pub fn at(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        self.tail(address)?.get(..length)
    }

    /// The executable piece that holds `address`.
    pub fn code_at(&self, address: u64) -> Option<Piece<'a>> {
        let holds = |piece: &&Piece<'a>| {
            piece.executable
                && address >= piece.address
                && address - piece.address < piece.bytes.len() as u64
        };
        self.pieces.iter().find(holds).copied()
    }

    fn first(&self, kind: u32) -> Option<&ProgramHeader> {
        self.headers.iter().find(|header| header.kind == kind)
    }

    fn contents(&self, header: &ProgramHeader) -> Option<&'a [u8]> {
        self.at(header.address, usize::try_from(header.file_size).ok()?)
    }

    /// The program interpreter (ld.so), without its final NUL; `None` for a static program or a library without one.
    pub fn interpreter(&self) -> Option<&'a [u8]> {
        self.contents(self.first(INTERPRETER)?)?
            .split_last()
            .map(|(_, path)| path)
    }

    /// The build-id: the NT_GNU_BUILD_ID note's descriptor, 1 to 64 bytes.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        self.headers
            .iter()
            .filter(|header| header.kind == NOTE)
            .filter_map(|header| self.contents(header))
            .find_map(|notes| note(notes, b"GNU\0", 3))
            .filter(|id| (1..=64).contains(&id.len()))
    }

    /// The value of a dynamic entry, such as DT_INIT (12).
    fn dynamic(&self, tag: u64) -> Option<u64> {
        let table = self.tail(self.first(DYNAMIC)?.address)?;
        let (entries, _) = table.as_chunks::<16>();
        entries
            .iter()
            .map(|entry| (long(entry, 0), long(entry, 8)))
            .take_while(|(tag, _)| *tag != Some(0))
            .find_map(|(found, value)| (found == Some(tag)).then_some(value)?)
    }

    /// Whether it says that it is a position-independent program (DF_1_PIE in DT_FLAGS_1).
    pub fn is_position_independent_program(&self) -> bool {
        self.dynamic(0x6fff_fffb)
            .is_some_and(|flags| flags & 0x0800_0000 != 0)
    }

    /// A dynamic entry that is an address. ld.so adds the bias to these in memory (glibc, `elf/get-dynamic-info.h`).
    fn dynamic_address(&self, tag: u64) -> Option<u64> {
        let value = self.dynamic(tag)?;
        match value.checked_sub(self.bias) {
            Some(unbiased) if self.bias != 0 && self.tail(unbiased).is_some() => Some(unbiased),
            _ => Some(value),
        }
    }

    /// Starts and sizes of functions in the dynamic symbol table (DT_SYMTAB, counted by DT_HASH or up to DT_STRTAB), and
    /// the starts that the header names: `e_entry`, DT_INIT, DT_FINI. A size of 0 means unknown.
    pub fn dynamic_functions(&self) -> Vec<(u64, u64)> {
        const HASH: u64 = 4;
        const STRTAB: u64 = 5;
        const SYMTAB: u64 = 6;
        const INIT: u64 = 12;
        const FINI: u64 = 13;
        let mut functions: Vec<_> = [
            Some(self.entry),
            self.dynamic_address(INIT),
            self.dynamic_address(FINI),
        ]
        .into_iter()
        .flatten()
        .map(|start| (start, 0))
        .collect();
        if let Some(table) = self.dynamic_address(SYMTAB)
            && let Some(symbols) = self.tail(table)
        {
            let hashed = self
                .dynamic_address(HASH)
                .and_then(|hash| word(self.tail(hash)?, 4));
            let strings = self
                .dynamic_address(STRTAB)
                .and_then(|strings| strings.checked_sub(table));
            let count = hashed
                .map(|count| count as usize)
                .or(strings.map(|size| size as usize / 24));
            symbol_functions(symbols, count.unwrap_or(0), &mut functions);
        }
        functions.retain(|(start, _)| self.code_at(*start).is_some());
        functions
    }

    /// The functions that have frame descriptions, through `.eh_frame_hdr`.
    pub fn frames(&self) -> Option<Frames<'a>> {
        let header = self.first(FRAME_HEADER)?;
        Frames::new(self, header.address)
    }

    /// Whether the object says that it has `.eh_frame_hdr`, seen or not.
    pub fn claims_frames(&self) -> bool {
        self.first(FRAME_HEADER).is_some()
    }
}

/// Appends the defined functions of a symbol table of `count` entries (`Elf64_Sym`).
pub(crate) fn symbol_functions(symbols: &[u8], count: usize, functions: &mut Vec<(u64, u64)>) {
    let (symbols, _) = symbols.as_chunks::<24>();
    for symbol in symbols.iter().take(count) {
        // STT_FUNC (2) and STT_GNU_IFUNC (10), not SHN_UNDEF.
        if matches!(symbol[4] & 15, 2 | 10) && half(symbol, 6) != Some(0) {
            functions.push((long(symbol, 8).unwrap_or(0), long(symbol, 16).unwrap_or(0)));
        }
    }
}

/// The descriptor of the first note with this owner and kind (`Elf64_Nhdr`; fields are padded to four bytes).
fn note<'a>(mut notes: &'a [u8], owner: &[u8], kind: u32) -> Option<&'a [u8]> {
    loop {
        let (name, size) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
        let descriptor = 12 + name.checked_next_multiple_of(4)?;
        let end = descriptor.checked_add(size)?;
        if word(notes, 8)? == kind && notes.get(12..)?.get(..name)? == owner {
            return notes.get(descriptor..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// The binary search table of `.eh_frame_hdr` and the frame descriptions it points to.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// `.eh_frame_hdr`'s address: what the entries are relative to.
    base: u64,
    /// Entries of two 4-byte values, function start and FDE, sorted by the first.
    table: &'a [[u8; 8]],
}

impl<'a> Frames<'a> {
    /// LSB 5.0, 10.6.2: version 1, encodings of the pointer to `.eh_frame`, of the count and of the table, then those.
    fn new(image: &Image<'a>, base: u64) -> Option<Self> {
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

    /// The last function that starts at or before `address`, as start, end, and start of the next (or the last address there is).
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
        // The description of a signal's return code begins a byte before it, as unwinders look one byte back for a caller (glibc,
        // sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c).
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

/// Appends the functions that a whole `.eh_frame` section at `address` describes, for files without `.eh_frame_hdr`.
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
