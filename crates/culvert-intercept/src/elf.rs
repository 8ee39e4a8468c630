//! What the engine has to know of an ELF object: where its code is, which file it is, and where its
//! functions start.
//!
//! The same parser reads files and mapped objects: an [`Image`] is a set of pieces of the file,
//! each with the address the linker gave it. All addresses here are such link-time addresses.
//! Everything that is read is outside data, so every read is checked and nothing panics.
//!
//! Sources: System V ABI (gABI) chapters 4 and 5, x86-64 psABI.

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

impl<'a> Piece<'a> {
    /// The bytes from `address` on, if there are any.
    pub fn tail(&self, address: u64) -> Option<&'a [u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..).filter(|tail| !tail.is_empty())
    }

    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
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

    /// The object whose first bytes are `first`. `bias` finds out how far above its link-time
    /// addresses it is mapped, from the program headers. `visible` gives a part of a PT_LOAD that
    /// can be read, with its link-time address.
    pub fn new(
        first: &[u8],
        bias: impl FnOnce(&[ProgramHeader]) -> u64,
        mut visible: impl FnMut(&ProgramHeader) -> Option<(u64, &'a [u8])>,
    ) -> Result<Self, &'static str> {
        let (kind, entry, headers) = header(first)?;
        let mut pieces = Vec::new();
        for load in headers.iter().filter(|header| header.kind == LOAD) {
            if let Some((address, bytes)) = visible(load).filter(|(_, bytes)| !bytes.is_empty())
                // With room for sums of addresses and small distances.
                && address.checked_add(bytes.len() as u64 + (1 << 16)).is_some()
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
        self.pieces.iter().find_map(|piece| piece.tail(address))
    }

    /// `length` bytes at `address`.
    pub fn at(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        self.tail(address)?.get(..length)
    }

    /// The executable piece that holds `address`.
    pub fn code_at(&self, address: u64) -> Option<Piece<'a>> {
        let holds = |piece: &&Piece<'a>| piece.executable && piece.tail(address).is_some();
        self.pieces.iter().find(holds).copied()
    }

    fn first(&self, kind: u32) -> Option<&ProgramHeader> {
        self.headers.iter().find(|header| header.kind == kind)
    }

    fn contents(&self, header: &ProgramHeader) -> Option<&'a [u8]> {
        self.at(header.address, usize::try_from(header.file_size).ok()?)
    }

    /// The program interpreter (ld.so), without its final NUL; `None` for a static program or a
    /// library without one.
    pub fn interpreter(&self) -> Option<&'a [u8]> {
        self.contents(self.first(INTERPRETER)?)?
            .split_last()
            .map(|(_, path)| path)
    }

    /// The build-id, 1 to 64 bytes: the NT_GNU_BUILD_ID note's descriptor, or the end of Go's own
    /// (ELF_NOTE_GOBUILDID_TAG, `cmd/link/internal/ld/elf.go`), in which the hash of the contents
    /// stands: Go's linker makes the other too, but no program header leads to it. Whoever builds
    /// may put any text there (`-ldflags=-buildid=`), which says nothing of the contents.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        const LONGEST: usize = 64;
        let notes = || {
            let headers = self.headers.iter().filter(|header| header.kind == NOTE);
            headers.filter_map(|header| self.contents(header))
        };
        let of_gnu = || notes().find_map(|notes| note(notes, b"GNU\0", 3));
        let of_go = || {
            let id = notes().find_map(|notes| note(notes, b"Go\0\0", 4))?;
            id.get(id.len().saturating_sub(LONGEST)..)
                .filter(|_| ends_in_hash(id))
        };
        of_gnu()
            .or_else(of_go)
            .filter(|id| (1..=LONGEST).contains(&id.len()))
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

    /// A dynamic entry that is an address. ld.so adds the bias to these in memory (glibc,
    /// `elf/get-dynamic-info.h`).
    fn dynamic_address(&self, tag: u64) -> Option<u64> {
        let value = self.dynamic(tag)?;
        match value.checked_sub(self.bias) {
            Some(unbiased) if self.bias != 0 && self.tail(unbiased).is_some() => Some(unbiased),
            _ => Some(value),
        }
    }

    /// Starts and sizes of functions in the dynamic symbol table (DT_SYMTAB, counted by DT_HASH or
    /// up to DT_STRTAB), and the starts that the header names: `e_entry`, DT_INIT, DT_FINI. A size
    /// of 0 means unknown.
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

    /// The address of `.eh_frame_hdr`, seen or not.
    pub fn frame_header(&self) -> Option<u64> {
        self.first(FRAME_HEADER).map(|header| header.address)
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

/// Whether Go's build-id is one that `go build` makes of a program: four parts, of which the last
/// is the hash of its contents, 120 bits in base64url (`cmd/go/internal/work/buildid.go`).
fn ends_in_hash(id: &[u8]) -> bool {
    const HASH: usize = 20;
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut parts = id.split(|&byte| byte == b'/');
    let is_hash = |part: &[u8]| part.len() == HASH && part.iter().all(is_digit);
    parts.next_back().is_some_and(is_hash) && parts.count() == 3
}

/// The descriptor of the first note with this owner and kind (`Elf64_Nhdr`; fields are padded to
/// four bytes).
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A note, padded.
    fn noted(owner: &[u8; 4], kind: u32, descriptor: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in [4, descriptor.len() as u32, kind] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(owner);
        bytes.extend_from_slice(descriptor);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// The build-id of an object with these notes.
    fn id(notes: &[u8]) -> Option<Vec<u8>> {
        let header = ProgramHeader {
            kind: NOTE,
            flags: 4,
            offset: 0,
            address: 0x400,
            file_size: notes.len() as u64,
            memory_size: notes.len() as u64,
        };
        let piece = Piece {
            address: 0x400,
            bytes: notes,
            executable: false,
        };
        let image = Image {
            kind: 3,
            entry: 0,
            headers: [header].into(),
            pieces: [piece].into(),
            bias: 0,
        };
        image.build_id().map(Vec::from)
    }

    #[test]
    fn a_build_id_says_which_contents_it_is_of() {
        let gnu = noted(b"GNU\0", 3, &[7; 20]);
        assert_eq!(id(&gnu), Some([7; 20].into()));
        // Of gofmt 1.26; what is left of it ends in the hash of the contents.
        let go =
            b"CBBGNlwgXQ9qV5f3F_ME/t7yIdGef6G1Us946H5sb/CZVkei4Kd4M3d6gM3Stv/ezZIyMAQ0TY5bYHZnElb";
        let noted_go = noted(b"Go\0\0", 4, go);
        assert_eq!(id(&noted_go), Some(go[go.len() - 64..].to_vec()));
        assert_eq!(id(&[&noted_go[..], &gnu].concat()), Some([7; 20].into()));
    }

    /// `go build -ldflags=-buildid=...` gives every program the same.
    #[test]
    fn a_text_of_somebodys_own_is_no_build_id() {
        let hash = "ezZIyMAQ0TY5bYHZnElb";
        let same = [
            "",
            "x",
            hash,
            "release/of/all/programs",
            &std::format!("a/b/{hash}"),
            &std::format!("a/b/c/d/{hash}"),
            &std::format!("a/b/c/{hash}0"),
            &std::format!("a/b/c/.{}", &hash[1..]),
        ];
        for text in same {
            assert_eq!(id(&noted(b"Go\0\0", 4, text.as_bytes())), None, "{text}");
        }
    }
}
