//! What is mapped in this process: `/proc/self/maps` (proc_pid_maps(5)), read and parsed without
//! libc.

use alloc::vec::Vec;
use culvert_sys::{Errno, OwnedFd, PAGE64, fd::CWD, flags::OFlags, fs, memory};

/// A line of `/proc/self/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// Whether writes go to the file.
    pub shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file, as (major << 32 | minor, inode); inode 0: none.
    pub file: (u64, u64),
    /// What the kernel calls it.
    pub name: Name,
}

/// The names that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `[stack]`: grows down.
    Stack,
    /// `[vdso]`, `[vvar]` and what else the kernel put there.
    Kernel,
    /// A path, or nothing.
    Other,
}

impl Mapping {
    /// Whether it maps a file.
    pub fn has_file(&self) -> bool {
        self.file.1 != 0
    }
}

/// What is known of this process's mappings.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Some of them, or all, by address.
    pub mappings: Vec<Mapping>,
    /// Whether they are all.
    pub complete: bool,
}

impl View {
    /// All mappings.
    pub fn all() -> Result<Self, Errno> {
        Ok(Self {
            mappings: lines(|mapping, _| Some(mapping))?,
            complete: true,
        })
    }

    /// The executable mappings of files that `start..end` touches, with their neighbours of the
    /// same file, by single queries (Linux 6.11): the kernel takes a microsecond for each mapping
    /// that it has to write out. All mappings where it knows no queries.
    pub fn around(start: u64, end: u64) -> Result<Self, Errno> {
        let file = MapsFile::open()?;
        let mut mappings = Vec::new();
        let mut address = start;
        loop {
            let mapping = match file.query(address, COVERING_OR_NEXT) {
                Ok(mapping) if mapping.start < end => mapping,
                Ok(_) | Err(Errno::ENOENT) => break,
                Err(_) => return Self::all(),
            };
            address = mapping.end;
            if mapping.executable && mapping.has_file() {
                file.neighbours(&mapping, &mut mappings);
            }
        }
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        mappings.dedup_by_key(|mapping| mapping.start);
        Ok(Self {
            mappings,
            complete: false,
        })
    }

    /// Makes sure that all are known.
    pub fn complete(&mut self) -> Result<(), Errno> {
        if !self.complete {
            *self = Self::all()?;
        }
        Ok(())
    }

    /// The file that is mapped at `address`.
    pub fn file_at(&self, address: u64) -> Option<(u64, u64)> {
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        let known = self.mappings.iter().find(holds).copied();
        let asked = || MapsFile::open().ok()?.query(address, 0).ok();
        let mapping = if self.complete {
            known
        } else {
            known.or_else(asked)
        };
        mapping
            .filter(|mapping| mapping.has_file())
            .map(|mapping| mapping.file)
    }
}

/// For [`MapsFile::query`]: the mapping behind the address, if none holds it
/// (PROCMAP_QUERY_COVERING_OR_NEXT_VMA).
const COVERING_OR_NEXT: u64 = 0x10;

/// `/proc/self/maps`, open.
struct MapsFile(OwnedFd);

impl MapsFile {
    fn open() -> Result<Self, Errno> {
        fs::openat(CWD, c"/proc/self/maps", OFlags::CLOEXEC, 0).map(Self)
    }

    /// The mapping that holds `address`; ENOENT when there is none.
    fn query(&self, address: u64, flags: u64) -> Result<Mapping, Errno> {
        let [start, end, permissions, _, offset, inode, device] =
            memory::query(&self.0, address, flags)?;
        Ok(Mapping {
            start,
            end,
            readable: permissions & 1 != 0,
            writable: permissions & 2 != 0,
            executable: permissions & 4 != 0,
            shared: permissions & 8 != 0,
            offset,
            // Major and minor number, four bytes each, in this order.
            file: (device.rotate_left(32), inode),
            name: Name::Other,
        })
    }

    /// Appends `mapping`, what lies before it down to the beginning of its file, and what lies
    /// behind it, as far as there are no other files between and before it no gaps of more than a
    /// page, which lld leaves between segments.
    fn neighbours(&self, mapping: &Mapping, all: &mut Vec<Mapping>) {
        const MOST: usize = 16;
        let same = |other: &Mapping| other.file == mapping.file;
        all.push(*mapping);
        let mut first = *mapping;
        for _ in 0..MOST {
            if first.offset == 0 {
                break;
            }
            let at = |gap| self.query(first.start.wrapping_sub(1 + gap), 0);
            match at(0).or_else(|_| at(PAGE64)) {
                Ok(before) if same(&before) => first = before,
                _ => break,
            }
            all.push(first);
        }
        let mut last = *mapping;
        for _ in 0..MOST {
            match self.query(last.end, COVERING_OR_NEXT) {
                Ok(behind) if same(&behind) && behind.offset != 0 => last = behind,
                _ => break,
            }
            all.push(last);
        }
    }
}

/// The path of the file that is mapped at `start`, with a NUL, as the kernel tells it. It may lead
/// elsewhere by now.
pub fn path(start: u64) -> Option<Vec<u8>> {
    let here = |mapping: Mapping, path: &[u8]| {
        (mapping.start == start && !path.is_empty()).then(|| [path, b"\0"].concat())
    };
    lines(here).ok()?.pop()
}

/// The same without a NUL, of the first file that is mapped in `range` and is not `inode`, by the
/// `text` of maps or smaps.
pub fn path_between(text: &[u8], range: core::ops::Range<u64>, inode: u64) -> Option<&[u8]> {
    let mut left = text;
    while !left.is_empty() {
        let (line, behind) = left.split_at(line_end(left));
        left = behind;
        let (start, digits) = hexadecimal(line);
        if digits == 0 || line.get(digits) != Some(&b'-') || start < range.start {
            continue;
        }
        if start >= range.end {
            break; // they are in the order of their addresses
        }
        let mut fields = line.trim_ascii_end().splitn(6, |byte| *byte == b' ');
        let (Some(found), Some(path)) = (fields.nth(4), fields.next()) else {
            continue;
        };
        let path = path.trim_ascii_start();
        let is_another = number(found, 10).is_some_and(|found| found != 0 && found != inode);
        if is_another && path.starts_with(b"/") {
            return Some(path);
        }
    }
    None
}

/// Where the first line of `text` ends: behind its end of line, or with the text.
#[inline]
pub fn line_end(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        // The lowest byte that is one is found for certain, others behind it may be wrong.
        let rest = u64::from_le_bytes(*chunk) ^ (ONES * b'\n' as u64);
        let found = rest.wrapping_sub(ONES) & !rest & (ONES << 7);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8 + 1;
        }
        at += 8;
    }
    let end = text[at..].iter().position(|byte| *byte == b'\n');
    end.map_or(text.len(), |end| at + end + 1)
}

/// The hexadecimal number with which `text` begins, and how many digits it has.
#[inline]
pub fn hexadecimal(text: &[u8]) -> (u64, usize) {
    let mut value = 0_u64;
    for (at, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return (value, at),
        };
        value = value << 4 | u64::from(digit);
    }
    (value, text.len())
}

/// The shared mappings of files that `start..end` touches, and the files' paths (without a NUL) as
/// the kernel tells them.
pub fn shared_between(start: u64, end: u64) -> Result<Vec<(Mapping, Vec<u8>)>, Errno> {
    lines(|mapping, path| {
        let wanted = mapping.shared && mapping.start < end && mapping.end > start;
        (wanted && !path.is_empty()).then(|| (mapping, Vec::from(path)))
    })
}

/// All mappings, and the files' paths (without a NUL) as the kernel tells them.
pub fn with_paths() -> Result<Vec<(Mapping, Vec<u8>)>, Errno> {
    lines(|mapping, path| Some((mapping, Vec::from(path))))
}

/// What `each` makes of the mappings and the paths of their files.
fn lines<T>(mut each: impl FnMut(Mapping, &[u8]) -> Option<T>) -> Result<Vec<T>, Errno> {
    const AT_ONCE: usize = 1 << 15; // the kernel gives at most a page or what it has ready
    let file = MapsFile::open()?;
    let mut text = Vec::with_capacity(AT_ONCE);
    loop {
        text.reserve(AT_ONCE / 4);
        match fs::read_more(&file.0, &mut text) {
            Ok(0) => break,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let lines = text.split(|byte| *byte == b'\n');
    let found = lines.filter_map(|line| {
        let path = line.iter().position(|byte| *byte == b'/');
        each(parse(line)?, path.map_or(b"", |at| &line[at..]))
    });
    Ok(found.collect())
}

/// `start-end perms offset major:minor inode   path`, numbers hexadecimal but for the inode.
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.split(|byte| *byte == b'-');
    let (start, end) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
    let permissions = fields.next()?;
    let offset = number(fields.next()?, 16)?;
    let mut device = fields.next()?.split(|byte| *byte == b':');
    let device = number(device.next()?, 16)? << 32 | number(device.next()?, 16)?;
    let inode = number(fields.next()?, 10)?;
    let name = match fields.next().unwrap_or_default().trim_ascii() {
        b"[stack]" => Name::Stack,
        // [vdso], [vvar], [vvar_vclock], [vsyscall]
        name if name.starts_with(b"[v") => Name::Kernel,
        _ => Name::Other,
    };
    let has = |index, letter| permissions.get(index) == Some(&letter);
    Some(Mapping {
        start,
        end,
        readable: has(0, b'r'),
        writable: has(1, b'w'),
        executable: has(2, b'x'),
        shared: has(3, b's'),
        offset,
        file: (device, inode),
        name,
    })
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use culvert_sys::{BorrowedFd, PAGE, flags::Protection};

    #[test]
    fn a_line_is_understood() {
        let line = b"7f00aa000000-7f00aa022000 r-xp 00026000 fe:01 1234                       \
            /usr/lib/with space/libc.so.6 (deleted)";
        let expected = Mapping {
            start: 0x7f00_aa00_0000,
            end: 0x7f00_aa02_2000,
            readable: true,
            writable: false,
            executable: true,
            shared: false,
            offset: 0x26000,
            file: (0xfe << 32 | 1, 1234),
            name: Name::Other,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(
            parse(b"7ffd1000-7ffd2000 rw-p 00000000 00:00 0      [stack]").map(|line| line.name),
            Some(Name::Stack)
        );
        assert_eq!(
            parse(b"7ffd1000-7ffd2000 r-xp 00000000 00:00 0 [vdso]").map(|line| line.name),
            Some(Name::Kernel)
        );
        for nonsense in [
            &b""[..],
            b"-",
            b"1-2",
            b"1-2 rwxp zz 0:0 0",
            b"\xff-\xff rwxp 0 0:0 0",
        ] {
            assert_eq!(parse(nonsense), None);
        }
    }

    #[test]
    fn lines_end_where_they_do() {
        for length in 0..40 {
            for end in 0..=length {
                let mut text = vec![b'x'; length];
                text.extend_from_slice(b"\x0b\n");
                if end < length {
                    text[end] = b'\n';
                }
                let plainly = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                assert_eq!(line_end(&text), plainly, "{text:?}");
                assert_eq!(line_end(&text[..end]), end);
            }
        }
    }

    #[test]
    fn hexadecimal_numbers_end_where_they_do() {
        for (text, value, digits) in [
            ("7f00aa-", 0x7f_00aa, 6),
            ("ffffffffffffffff", u64::MAX, 16),
            ("Size:", 0, 0),
            ("", 0, 0),
        ] {
            assert_eq!(hexadecimal(text.as_bytes()), (value, digits), "{text}");
        }
    }

    #[test]
    fn this_function_is_mapped_executable() {
        let here = this_function_is_mapped_executable as fn() as usize as u64;
        let mappings = View::all().unwrap().mappings;
        let mine = mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&here))
            .unwrap();
        assert!(mine.executable && mine.readable && mine.has_file() && !mine.shared);
        assert!(mappings.is_sorted_by_key(|mapping| mapping.start));
        assert!(mappings.iter().any(|mapping| mapping.name == Name::Stack));
    }

    #[test]
    fn a_shared_mapping_of_a_file_is_found_by_its_addresses() {
        use std::os::fd::AsRawFd;
        let program = std::fs::canonicalize("/proc/self/exe").unwrap();
        let file = std::fs::File::open(&program).unwrap();
        let of = memory::Of::Shared(BorrowedFd::number(file.as_raw_fd()), PAGE as u64);
        let mapped = memory::Mapping::near(0, of, 2 * PAGE, Protection::READ).unwrap();
        let at = mapped.address() as u64;
        let (mapping, path) = shared_between(at + 1, at + 2).unwrap().remove(0);
        assert_eq!((mapping.start, mapping.offset), (at, PAGE as u64));
        assert_eq!(path, program.to_str().unwrap().as_bytes());
        assert!(shared_between(at, at).unwrap().is_empty());
        let here = this_function_is_mapped_executable as fn() as usize as u64;
        assert!(shared_between(here, here + 1).unwrap().is_empty());
    }

    #[test]
    fn queries_and_lines_say_the_same() {
        let all = View::all().unwrap();
        let here = queries_and_lines_say_the_same as fn() as usize as u64;
        let code = all
            .mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&here))
            .unwrap();
        let around = View::around(here, here + 1).unwrap();
        assert!(around.mappings.contains(code));
        assert!(
            around
                .mappings
                .iter()
                .all(|mapping| all.mappings.iter().any(|other| (
                    other.start,
                    other.end,
                    other.file
                ) == (
                    mapping.start,
                    mapping.end,
                    mapping.file
                )))
        );
        assert!(
            around
                .mappings
                .iter()
                .any(|mapping| mapping.offset == 0 && mapping.file == code.file)
        );
        assert_eq!(around.file_at(here), Some(code.file));
        assert_eq!(all.file_at(here), Some(code.file));
        assert_eq!(all.file_at(1), None);
        let program = std::fs::canonicalize("/proc/self/exe").unwrap();
        assert_eq!(
            path(code.start).unwrap().split_last().unwrap().1,
            program.to_str().unwrap().as_bytes()
        );
        for text in ["/proc/self/maps", "/proc/self/smaps"] {
            let text = std::fs::read(text).unwrap();
            let range = code.start..code.start + 1;
            let found = path_between(&text, range.clone(), 0);
            assert_eq!(found, Some(program.to_str().unwrap().as_bytes()));
            assert_eq!(path_between(&text, range, code.file.1), None);
            assert_eq!(path_between(&text, code.start + 1..code.start + 2, 0), None);
        }
        let nothing = View::around(0, 1).unwrap();
        assert!(nothing.complete || nothing.mappings.is_empty());
    }
}
