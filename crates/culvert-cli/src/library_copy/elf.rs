//! What a linker would have done: libculvert.so with an address of its own.

// elf(5), of a file of 64 bits.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
/// As libculvert.so knows it (`relocation.rs`).
const PT_COPY_RELRO: u32 = 0x6c76_6372;
const PT_NULL: u32 = 0;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_INIT: u64 = 12;
const DT_INIT_ARRAY: u64 = 25;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_RELRENT: u64 = 37;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNAMIC: u32 = 6;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const HEADER: usize = 56;
const SYMBOL: usize = 24;
/// How the room for the dynamic section begins (libculvert, `relocation.rs`), and how long it is.
const ROOM: &[u8] = b"culvert dynamic ";
const ROOM_SIZE: usize = 272;

/// A file that is changed; none where it has not that many bytes.
struct File<'a>(&'a mut [u8]);

impl File<'_> {
    fn get<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn half(&self, at: usize) -> Option<u16> {
        self.get(at).map(u16::from_le_bytes)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.get(at).map(u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> Option<u64> {
        self.get(at).map(u64::from_le_bytes)
    }

    /// A place within the file.
    fn place(&self, at: usize) -> Option<usize> {
        let place = usize::try_from(self.long(at)?).ok()?;
        (place <= self.0.len()).then_some(place)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        self.0
            .get_mut(at..at.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        Some(())
    }

    fn put_longs(&mut self, at: usize, numbers: &[u64]) -> Option<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        self.put(at, &bytes)
    }

    fn add(&mut self, at: usize, number: u64) -> Option<()> {
        let sum = self.long(at)?.wrapping_add(number);
        self.put(at, &sum.to_le_bytes())
    }

    /// The symbols from `start` to `end` lie further up by `base`.
    fn move_symbols(&mut self, start: usize, end: usize, base: u64) -> Option<()> {
        for symbol in (start..end).step_by(SYMBOL) {
            if !matches!(self.half(symbol + 6)?, SHN_UNDEF | SHN_ABS) {
                self.add(symbol + 8, base)?;
            }
        }
        Some(())
    }
}

/// Links libculvert.so, which is `bytes`, to the address `base`: ld.so has nothing to relocate, and
/// what is only read from then on lies in one segment with the code. None: it is not laid out as
/// expected (libculvert, `build.rs`).
pub fn link(bytes: &mut [u8], base: u64) -> Option<()> {
    let mut file = File(bytes);
    let segments = Segments::of(&file)?;
    let dynamic = Dynamic::of(&file, segments.dynamic)?;
    let room = room(&file, segments.data)?;
    relocate(&mut file, &dynamic, base)?;
    file.put(room, &dynamic.moved(base)?)?;
    move_symbols_of_dynamic(&mut file, &dynamic, base)?;
    move_sections(&mut file, room as u64, base)?;
    move_segments(&mut file, &segments, room as u64, base)
}

/// Where the headers of the segments are in the file.
struct Segments {
    all: Vec<usize>,
    code: usize,
    read_only: usize,
    data: usize,
    relro: usize,
    dynamic: usize,
}

impl Segments {
    /// Those of `file`, if it is laid out as expected.
    fn of(file: &File<'_>) -> Option<Self> {
        let (first, count) = (file.place(32)?, usize::from(file.half(56)?));
        let all: Vec<usize> = (0..count).map(|index| first + index * HEADER).collect();
        let of_kind = |kind| {
            let found = all.iter().copied();
            let found = found.filter(|&at| file.word(at) == Some(kind));
            found.collect::<Vec<_>>()
        };
        let (loads, relro) = (of_kind(PT_LOAD), of_kind(PT_GNU_RELRO));
        let (&[code, read_only, data], &[relro], &[dynamic]) =
            (&loads[..], &relro[..], &of_kind(PT_DYNAMIC)[..])
        else {
            return None;
        };
        // Each byte of the file has the address that is its place there.
        let is_straight = |at: &usize| file.long(at + 8) == file.long(at + 16);
        let start = file.long(read_only + 8)?;
        let is_as_expected = [code, read_only, data, relro, dynamic]
            .iter()
            .all(is_straight)
            && file.long(code + 8)? == 0
            && file.long(code + 32)?.checked_next_multiple_of(4096)? == start
            && file.long(relro + 8)? == start;
        is_as_expected.then_some(Self {
            all,
            code,
            read_only,
            data,
            relro,
            dynamic,
        })
    }
}

/// Where the room for the dynamic section is: in the segment whose header is at `data`.
fn room(file: &File<'_>, data: usize) -> Option<usize> {
    let (from, length) = (file.place(data + 8)?, file.place(data + 32)?);
    let data = file.0.get(from..from.checked_add(length)?)?;
    Some(from + data.windows(ROOM.len()).position(|at| at == ROOM)?)
}

/// The dynamic section: tags and their values.
struct Dynamic(Vec<(u64, u64)>);

impl Dynamic {
    /// That of the segment whose header is at `header`.
    fn of(file: &File<'_>, header: usize) -> Option<Self> {
        let section = file.place(header + 8)?;
        let entries = (0..)
            .map(|index| section + index * 16)
            .map_while(|at| file.long(at).zip(file.long(at + 8)))
            .take_while(|&(tag, _)| tag != DT_NULL);
        Some(Self(entries.collect()))
    }

    fn value(&self, wanted: u64) -> Option<usize> {
        let found = self.0.iter().find(|&&(tag, _)| tag == wanted);
        found.map(|&(_, value)| value as usize)
    }

    /// The section of a library that lies further up by `base` and has nothing to relocate. ld.so
    /// reads it up to the tag that is 0.
    fn moved(&self, base: u64) -> Option<Vec<u8>> {
        let mut moved = Vec::new();
        for &(tag, value) in &self.0 {
            let value = match tag {
                DT_RELR | DT_RELRSZ | DT_RELRENT => continue,
                DT_STRTAB | DT_SYMTAB | DT_INIT | DT_INIT_ARRAY | DT_GNU_HASH => value + base,
                _ => value,
            };
            moved.extend(tag.to_le_bytes().into_iter().chain(value.to_le_bytes()));
        }
        if moved.len() + 16 > ROOM_SIZE {
            return None;
        }
        moved.resize(ROOM_SIZE, 0);
        Some(moved)
    }
}

/// Does what ld.so would do with the addresses in the data.
fn relocate(file: &mut File<'_>, dynamic: &Dynamic, base: u64) -> Option<()> {
    for word in relocated(file, dynamic.value(DT_RELR)?, dynamic.value(DT_RELRSZ)?)? {
        file.add(word, base)?;
    }
    Some(())
}

/// Moves the symbols that ld.so looks up. The first is none; behind the last lies the next table.
fn move_symbols_of_dynamic(file: &mut File<'_>, dynamic: &Dynamic, base: u64) -> Option<()> {
    let symbols = dynamic.value(DT_SYMTAB)?;
    let tables = [DT_STRTAB, DT_GNU_HASH, DT_RELR];
    let tables: Option<Vec<usize>> = tables.into_iter().map(|tag| dynamic.value(tag)).collect();
    let end = tables?.into_iter().filter(|&table| table > symbols).min()?;
    file.move_symbols(symbols + SYMBOL, end, base)
}

/// Moves the sections, of which debuggers ask, and the symbols that only they use.
fn move_sections(file: &mut File<'_>, room: u64, base: u64) -> Option<()> {
    let (sections, count) = (file.place(40)?, usize::from(file.half(60)?));
    for section in (0..count).map(|index| sections + index * 64) {
        if file.long(section + 16)? != 0 {
            file.add(section + 16, base)?;
        }
        match file.word(section + 4)? {
            SHT_SYMTAB => {
                let (start, length) = (file.place(section + 24)?, file.place(section + 32)?);
                file.move_symbols(start, start.checked_add(length)?, base)?;
            }
            SHT_DYNAMIC => file.put_longs(section + 16, &[base + room, room, ROOM_SIZE as u64])?,
            _ => {}
        }
    }
    Some(())
}

/// Moves the segments: what is only read joins the code, and the dynamic section lies in its room.
fn move_segments(file: &mut File<'_>, segments: &Segments, room: u64, base: u64) -> Option<()> {
    let Segments {
        code,
        read_only,
        relro,
        dynamic,
        ..
    } = *segments;
    let end = file.long(read_only + 8)? + file.long(read_only + 32)?;
    for at in &segments.all {
        file.add(at + 16, base)?;
        file.add(at + 24, base)?;
    }
    file.put_longs(code + 32, &[end, end])?;
    file.put(read_only, &PT_NULL.to_le_bytes())?;
    file.put(relro, &PT_COPY_RELRO.to_le_bytes())?;
    let (at, size) = (base + room, ROOM_SIZE as u64);
    file.put_longs(dynamic + 8, &[room, at, at, size, size])
}

/// Where the words are that ld.so would relocate: `size` bytes at `table` say it (DT_RELR).
fn relocated(file: &File<'_>, table: usize, size: usize) -> Option<Vec<usize>> {
    let (mut words, mut next) = (Vec::new(), 0);
    for at in (table..table.checked_add(size)?).step_by(8) {
        let entry = file.long(at)? as usize;
        if entry & 1 == 0 {
            words.push(entry);
            next = entry + 8;
            continue;
        }
        words.extend(
            (0..63)
                .filter(|bit| entry >> (bit + 1) & 1 != 0)
                .map(|bit| next + bit * 8),
        );
        next += 63 * 8;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const BASE: u64 = 0x7ec0_0020_0000;

    #[test]
    fn what_is_not_laid_out_as_the_library_is_refused() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for mut other in [Vec::new(), vec![0; 4096], vec![0xff; 4096], own] {
            assert_eq!(link(&mut other, BASE), None);
        }
    }

    #[test]
    fn words_are_relocated_as_the_table_says() {
        let entries = [0x100_u64, 0b1011, 0x300];
        let mut bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.to_le_bytes())
            .collect();
        let words = relocated(&File(&mut bytes), 0, 24).unwrap();
        assert_eq!(words, [0x100, 0x108, 0x118, 0x300]);
        assert_eq!(relocated(&File(&mut bytes), 8, 24), None);
    }
}
