//! What a shared object is and needs (elf(5), the x86-64 psABI), as far as one is loaded that needs
//! no libc. All of it is checked: whatever it says, nothing outside of its bytes is read.

use super::{SYMBOL, check_head, refused};
use alloc::{format, string::String, vec::Vec};
use culvert::{Error, Result};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_TLS: u32 = 7;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_INIT: u64 = 12;
const DT_PLTREL: u64 = 20;
const DT_TEXTREL: u64 = 22;
const DT_JMPREL: u64 = 23;
const DT_PLTRELSZ: u64 = 2;
const DT_INIT_ARRAY: u64 = 25;
const DT_INIT_ARRAYSZ: u64 = 27;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Tables of relocations that are not read: DT_REL, DT_CREL, Android's packed REL, RELA and RELR.
const OTHERS: [u64; 5] = [17, 0x4000_0026, 0x6000_000f, 0x6000_0011, 0x6fff_e000];

const R_64: u32 = 1;
const R_GLOB_DAT: u32 = 6;
const R_JUMP_SLOT: u32 = 7;
const R_RELATIVE: u32 = 8;

const STB_WEAK: u8 = 2;
const STT_TLS: u8 = 6;
const STT_IFUNC: u8 = 10;

/// No object has more of anything.
const MANY: u64 = 1 << 20;
/// Nor of these, which are gone through for each word that is looked for.
const SEGMENTS: usize = 64;
const ENTRIES: usize = 1024;
/// A symbol that is a number, not a place in the object (SHN_ABS).
const ABSOLUTE: u64 = 0xfff1;

/// A segment that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Where, from the start on.
    pub address: usize,
    /// How much, with what is zero.
    pub length: usize,
    /// The bytes that it begins with.
    pub bytes: &'a [u8],
    /// `PF_X` 1, `PF_W` 2, `PF_R` 4.
    pub flags: u32,
}

/// What a word is to become.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// The start and this.
    Own(u64),
    /// What is at the place, and the start.
    Moved,
    /// An address elsewhere, or 0.
    Elsewhere(u64),
}

/// A shared object.
#[derive(Debug)]
pub struct Object<'a> {
    /// What is mapped, in order.
    pub segments: Vec<Segment<'a>>,
    /// From the start to the end, bytes; whole pages.
    pub span: usize,
    dynamic: Vec<(u64, u64)>,
    symbols: u64,
}

fn damaged() -> Error {
    refused("not a shared object for x86-64, or a damaged one")
}

/// Gives the address of what is provided under a name.
pub type Provider = fn(&[u8]) -> Option<usize>;

impl<'a> Object<'a> {
    /// Reads the headers.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let word = |at: usize, size: usize| -> Option<u64> {
            let found = bytes.get(at..at.checked_add(size)?)?;
            let mut word = [0; 8];
            word.get_mut(..size)?.copy_from_slice(found);
            Some(u64::from_le_bytes(word))
        };
        // 64 bits, little-endian, current version.
        let is_one = bytes.starts_with(b"\x7fELF\x02\x01\x01")
            // ET_DYN, EM_X86_64, the size of a program header.
            && (word(16, 2), word(18, 2), word(54, 2)) == (Some(3), Some(62), Some(56));
        if !is_one {
            return Err(damaged());
        }
        let (table, count) = (word(32, 8), word(56, 2));
        let (table, count) = table.zip(count).ok_or_else(damaged)?;
        let mut object = Self {
            segments: Vec::new(),
            span: 0,
            dynamic: Vec::new(),
            symbols: 0,
        };
        let mut dynamic = None;
        for number in 0..count {
            let header = table
                .checked_add(number * 56)
                .and_then(|at| usize::try_from(at).ok());
            let field = |at: usize, size| word(header?.checked_add(at)?, size);
            let all = (
                field(0, 4),
                field(4, 4),
                field(8, 8),
                field(16, 8),
                field(32, 8),
                field(40, 8),
            );
            let (Some(kind), Some(flags), Some(offset), Some(address), Some(stored), Some(length)) =
                all
            else {
                return Err(damaged());
            };
            let align = field(48, 8).ok_or_else(damaged)?;
            match kind as u32 {
                PT_INTERP => return Err(refused("it is a program")),
                PT_TLS if length > 0 => {
                    return Err(refused("it has thread-local storage, which is the libc's"));
                }
                PT_DYNAMIC => dynamic = Some((address, length)),
                PT_LOAD if length > 0 => {
                    if align > 4096 {
                        return Err(refused(format!(
                            "it asks for pages of {align} bytes; -Wl,-z,max-page-size=4096 makes \
                             one that does not"
                        )));
                    }
                    if flags & 4 == 0 {
                        return Err(refused("it has memory that cannot be read"));
                    }
                    if flags & 3 == 3 {
                        return Err(refused("it has memory that is both written and executed"));
                    }
                    if object.segments.len() == SEGMENTS {
                        return Err(damaged());
                    }
                    let part = offset.checked_add(stored).filter(|_| stored <= length);
                    let part = part.and_then(|end| bytes.get(offset as usize..end as usize));
                    let end = address
                        .checked_add(length)
                        .filter(|&end| end <= super::MOST);
                    let (Some(part), Some(end)) = (part, end) else {
                        return Err(damaged());
                    };
                    object.span = object.span.max((end as usize).next_multiple_of(4096));
                    object.segments.push(Segment {
                        address: address as usize,
                        length: length as usize,
                        bytes: part,
                        flags: flags as u32,
                    });
                }
                _ => {}
            }
        }
        let (address, length) = dynamic.ok_or_else(|| refused("it is linked statically"))?;
        for at in (0..length.min(MANY) / 16).map(|number| address.saturating_add(number * 16)) {
            let entry = object.word(at).zip(object.word(at.saturating_add(8)));
            match entry.ok_or_else(damaged)? {
                (0, _) => break,
                _ if object.dynamic.len() == ENTRIES => return Err(damaged()),
                entry => object.dynamic.push(entry),
            }
        }
        if object.value(DT_TEXTREL).is_some() {
            return Err(refused("its code is not position independent (-fPIC)"));
        }
        let is_other = |&(tag, value): &(u64, u64)| {
            OTHERS.contains(&tag) || tag == DT_PLTREL && value != DT_RELA
        };
        if object.dynamic.iter().any(is_other) {
            return Err(refused("its relocations are of a kind that needs a libc"));
        }
        object.symbols = object.count_symbols().ok_or_else(damaged)?;
        Ok(object)
    }

    /// The bytes from `address` on, as far as they are stored.
    fn tail(&self, address: u64) -> Option<&'a [u8]> {
        let address = usize::try_from(address).ok()?;
        let at = |segment: &Segment<'a>| segment.bytes.get(address.checked_sub(segment.address)?..);
        self.segments.iter().find_map(at)
    }

    fn number(&self, address: u64, size: usize) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..size)?
            .copy_from_slice(self.tail(address)?.get(..size)?);
        Some(u64::from_le_bytes(word))
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.number(address, 8)
    }

    fn value(&self, wanted: u64) -> Option<u64> {
        let found = self.dynamic.iter().find(|(tag, _)| *tag == wanted);
        found.map(|(_, value)| *value)
    }

    /// How many symbols there are: as the table says by which they are found.
    fn count_symbols(&self) -> Option<u64> {
        if let Some(table) = self.value(DT_HASH) {
            return self
                .number(table.checked_add(4)?, 4)
                .filter(|&count| count < MANY);
        }
        let Some(table) = self.value(DT_GNU_HASH) else {
            return Some(0);
        };
        let field = |number: u64| self.number(table.checked_add(4 * number)?, 4);
        let (buckets, first, bloom) = (field(0)?, field(1)?, field(2)?);
        if buckets > MANY || bloom > MANY {
            return None;
        }
        let start = table.checked_add(16 + 8 * bloom)?;
        let bucket = |number: u64| self.number(start.checked_add(4 * number)?, 4);
        let mut last = 0;
        for number in 0..buckets {
            last = last.max(bucket(number)?);
        }
        if last < first {
            return Some(first).filter(|&count| count < MANY);
        }
        let chains = start.checked_add(4 * buckets)?;
        // The lowest bit ends a chain.
        while last < MANY && self.number(chains.checked_add(4 * (last - first))?, 4)? & 1 == 0 {
            last += 1;
        }
        Some(last + 1).filter(|&count| count < MANY)
    }

    fn name(&self, symbol: u64) -> Option<&'a [u8]> {
        let at = self.value(DT_SYMTAB)?.checked_add(24 * symbol)?;
        let name = self.value(DT_STRTAB)?.checked_add(self.number(at, 4)?)?;
        let rest = self.tail(name)?;
        rest.get(..rest.iter().take(4096).position(|&byte| byte == 0)?)
    }

    /// The value of symbol `number`.
    fn symbol(&self, number: u64, provided: Provider) -> Result<Value> {
        if number == 0 {
            return Ok(Value::Elsewhere(0));
        }
        let field = |at: u64, size| {
            let symbol = self.value(DT_SYMTAB)?.checked_add(24 * number)?;
            self.number(symbol.checked_add(at)?, size)
        };
        let found = (field(4, 1), field(6, 2), field(8, 8), self.name(number));
        let (Some(info), Some(section), Some(value), Some(name)) = found else {
            return Err(damaged());
        };
        let shown = || String::from_utf8_lossy(name).into_owned();
        match info as u8 & 15 {
            STT_TLS => return Err(refused(format!("{} is thread-local", shown()))),
            STT_IFUNC => return Err(refused(format!("{} is chosen by the processor", shown()))),
            _ => {}
        }
        match section {
            0 => {}
            ABSOLUTE => return Ok(Value::Elsewhere(value)),
            _ => return Ok(Value::Own(value)),
        }
        match provided(name) {
            Some(address) => Ok(Value::Elsewhere(address as u64)),
            None if info as u8 >> 4 == STB_WEAK => Ok(Value::Elsewhere(0)),
            None => Err(refused(format!(
                "it needs {}, which only a libc has",
                shown()
            ))),
        }
    }

    /// Calls `change` with each word that depends on where the object lies.
    pub fn relocations(
        &self,
        provided: Provider,
        mut change: impl FnMut(u64, Value),
    ) -> Result<()> {
        self.relative(&mut change).ok_or_else(damaged)?;
        for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            let Some((table, size)) = self.value(table).zip(self.value(size)) else {
                continue;
            };
            for number in 0..size.min(24 * MANY) / 24 {
                let entry = table.saturating_add(24 * number);
                let field = |at| self.word(entry.saturating_add(at));
                let (Some(place), Some(info), Some(addend)) = (field(0), field(8), field(16))
                else {
                    return Err(damaged());
                };
                if place
                    .checked_add(8)
                    .is_none_or(|end| end > self.span as u64)
                {
                    return Err(damaged());
                }
                match info as u32 {
                    0 => {}
                    R_RELATIVE => change(place, Value::Own(addend)),
                    kind @ (R_64 | R_GLOB_DAT | R_JUMP_SLOT) => {
                        let addend = if kind == R_64 { addend } else { 0 };
                        change(
                            place,
                            match self.symbol(info >> 32, provided)? {
                                Value::Own(value) => Value::Own(value.wrapping_add(addend)),
                                Value::Elsewhere(at) => Value::Elsewhere(at.wrapping_add(addend)),
                                moved => moved,
                            },
                        );
                    }
                    kind => {
                        return Err(refused(format!(
                            "it has a relocation of type {kind}, which needs a libc"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// The packed ones (DT_RELR, System V ABI): an even word is an address, and what follows it
    /// with the lowest bit set is a map of the next 63 words.
    fn relative(&self, change: &mut impl FnMut(u64, Value)) -> Option<()> {
        let Some((table, size)) = self.value(DT_RELR).zip(self.value(DT_RELRSZ)) else {
            return Some(());
        };
        let mut one = |place: u64| {
            let inside = place
                .checked_add(8)
                .is_some_and(|end| end <= self.span as u64);
            inside.then(|| change(place, Value::Moved))
        };
        let mut next = 0_u64;
        for number in 0..size.min(8 * MANY) / 8 {
            let entry = self.word(table.checked_add(8 * number)?)?;
            if entry & 1 == 0 {
                one(entry)?;
                next = entry.checked_add(8)?;
                continue;
            }
            for bit in (0..63).filter(|bit| entry >> (bit + 1) & 1 != 0) {
                one(next.checked_add(8 * bit)?)?;
            }
            next = next.checked_add(8 * 63)?;
        }
        Some(())
    }

    /// Where the object's own initialisers are: of DT_INIT one, and a table of others.
    pub fn initialisers(&self) -> (Option<u64>, Option<(u64, u64)>) {
        let table = self.value(DT_INIT_ARRAY).zip(self.value(DT_INIT_ARRAYSZ));
        let inside = |&(at, size): &(u64, u64)| {
            at.checked_add(size)
                .is_some_and(|end| end <= self.span as u64)
        };
        let first = self.value(DT_INIT).filter(|&at| at < self.span as u64);
        (first, table.filter(inside))
    }

    /// Where `culvert_driver` is.
    pub fn driver(&self) -> Result<u64> {
        let mut symbols = 1..self.symbols;
        let found = symbols.find_map(|number| {
            if self.name(number) != Some(SYMBOL.as_bytes()) {
                return None;
            }
            match self.symbol(number, |_| None).ok()? {
                Value::Own(value) => Some(value),
                _ => None,
            }
        });
        found.ok_or_else(|| {
            refused(format!(
                "no driver: it does not define {SYMBOL} (culvert/driver.h)"
            ))
        })
    }

    /// The flags of the table of functions.
    pub fn flags(&self) -> Result<u64> {
        let at = self.driver()?;
        let (version, size) = (self.number(at, 4), self.number(at.saturating_add(4), 4));
        let (version, size) = version.zip(size).ok_or_else(damaged)?;
        check_head(version as u32, size as u32)?;
        self.word(at.saturating_add(8)).ok_or_else(damaged)
    }

    /// Whether it can be loaded without a libc.
    pub fn check(&self, provided: Provider) -> Result<()> {
        self.flags()?;
        self.relocations(provided, |_, _| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    /// A PT_LOAD of a page with these flags and this alignment.
    fn segment(flags: u32, align: u64) -> Vec<u8> {
        let mut header = [PT_LOAD, flags].map(u32::to_le_bytes).concat();
        for word in [0, 0, 0, 0, 4096, align] {
            header.extend(u64::to_le_bytes(word));
        }
        header
    }

    fn why(segments: &[Vec<u8>]) -> String {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (bytes[16], bytes[18], bytes[32], bytes[54]) = (3, 62, 64, 56);
        bytes[56] = segments.len() as u8;
        bytes.extend(segments.concat());
        let error = Object::read(&bytes).expect_err("it has no PT_DYNAMIC");
        error.to_string()
    }

    #[test]
    fn segments_that_cannot_be_mapped_as_they_say_are_refused() {
        assert!(why(&[segment(5, 4096), segment(6, 4096)]).contains("statically"));
        assert!(why(&[segment(5, 1 << 21)]).contains("pages of 2097152 bytes"));
        assert!(why(&[segment(7, 4096)]).contains("both written and executed"));
        assert!(why(&[segment(1, 4096)]).contains("cannot be read"));
        assert!(why(&vec![segment(4, 4096); 64]).contains("statically"));
        assert!(why(&vec![segment(4, 4096); 65]).contains("damaged"));
    }

    #[test]
    fn a_count_of_symbols_that_no_object_has_is_none() {
        // One bucket, which is empty; the first symbol that is in none of them.
        for (first, want) in [(7, Some(7)), (u32::MAX, None)] {
            let table = [1, first, 0, 0, 0].map(u32::to_le_bytes).concat();
            let object = Object {
                segments: vec![Segment {
                    address: 0,
                    length: table.len(),
                    bytes: &table,
                    flags: 4,
                }],
                span: 4096,
                dynamic: vec![(DT_GNU_HASH, 0)],
                symbols: 0,
            };
            assert_eq!(object.count_symbols(), want, "{first}");
        }
    }
}
