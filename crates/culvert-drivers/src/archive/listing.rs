//! Lists of members as scripts of extfs print them, a line for each, much as `ls -l` does (README
//! of extfs in Midnight Commander and AVFS).
//!
//! ```text
//! -rw-r--r--   1 0   0   1234 Jan 02 2024 13:05 directory/name
//! lrwxrwxrwx   1 me  us     4 01-02-2024 13:05 link -> name
//! ```
//!
//! Columns are found from the date: scripts leave some out, and names of groups have spaces.

use super::iso::record::seconds;
use alloc::vec::Vec;
use culvert::FileKind;

/// A member as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, with set-user-ID and the like.
    pub permissions: u32,
    /// Owner and group; none where they are given by name.
    pub owner: (Option<u32>, Option<u32>),
    /// Bytes; scripts are known to guess.
    pub size: u64,
    /// Of a device.
    pub device: (u32, u32),
    /// Time of the last change, in seconds. The list has no zone: it is taken for UTC.
    pub mtime: i64,
    /// Its path, as the script wants it told: without the first `/` or `./`.
    pub path: Vec<u8>,
    /// Where a symbolic link leads.
    pub target: Vec<u8>,
    /// Of which other member this is a second name.
    pub same_as: Option<Vec<u8>>,
}

/// What a list says: its members, and the numbers of lines that say none (from 1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In their order.
    pub members: Vec<Listed>,
    /// Lines that are not understood.
    pub strange: Vec<usize>,
}

const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];
const DAYS: [&[u8; 3]; 7] = [b"sun", b"mon", b"tue", b"wed", b"thu", b"fri", b"sat"];
const DAY: i64 = 86_400;

/// Reads the list `text`, printed at `now` (seconds), which dates without a year are not far
/// behind.
pub fn parse(text: &[u8], now: i64) -> Listing {
    let mut listing = Listing::default();
    let mut found = Vec::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match columns(line, now) {
            Some(columns) => found.push((number + 1, columns)),
            None if is_passed_over(line) => {}
            None => listing.strange.push(number + 1),
        }
    }
    // What stands before all names is a gap; what stands there besides is part of a name.
    let spaces = |name: &[u8]| name.iter().take_while(|&&byte| byte == b' ').count();
    let gap = found.iter().map(|(_, (_, name))| spaces(name)).min();
    for (number, (listed, name)) in found {
        match named(listed, &name[gap.unwrap_or(0)..]) {
            Some(listed) => listing.members.push(listed),
            None => listing.strange.push(number),
        }
    }
    listing.strange.sort_unstable();
    listing
}

/// An empty line, or the sum that `ls -l` begins with.
fn is_passed_over(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || line.starts_with(b"total ")
}

/// All but the name, and the rest of the line, which begins with a space.
fn columns(line: &[u8], now: i64) -> Option<(Listed, &[u8])> {
    /// The furthest column in which a date may begin.
    const LAST: usize = 9;
    let words = words(line);
    let (kind, permissions) = mode(word(line, &words, 0)?)?;
    for at in 2..=LAST {
        let Some((mtime, count)) = date(line, &words[at.min(words.len())..], now) else {
            continue;
        };
        let Some(last) = word(line, &words, at - 1) else {
            continue;
        };
        let before = &words[1..at];
        let (size, device, owners) = match number(last) {
            Some(size) => match word(line, before, before.len().wrapping_sub(2)) {
                // "major, minor"
                Some(major) if major.ends_with(b",") => {
                    let major = number(&major[..major.len() - 1])?;
                    (0, (major as u32, size as u32), before.len() - 2)
                }
                _ => (size, (0, 0), before.len() - 1),
            },
            None => {
                let comma = last.iter().position(|&byte| byte == b',');
                let Some((major, minor)) = comma.map(|comma| last.split_at(comma)) else {
                    continue;
                };
                match (number(major), number(&minor[1..])) {
                    (Some(major), Some(minor)) => {
                        (0, (major as u32, minor as u32), before.len() - 1)
                    }
                    _ => continue,
                }
            }
        };
        // Links, owner, group.
        let owner = |column: usize| {
            let word = word(line, &before[..owners], column)?;
            u32::try_from(number(word)?).ok()
        };
        let links = word(line, &before[..owners], 0).and_then(number);
        let &(_, end) = words.get(at + count - 1)?;
        let rest = &line[end..];
        let listed = Listed {
            kind,
            permissions,
            owner: (owner(1), owner(2)),
            size,
            device,
            mtime,
            path: Vec::new(),
            target: Vec::new(),
            // Whether there may be one is what is known by now.
            same_as: links.is_some_and(|links| links > 1).then(Vec::new),
        };
        return (rest.first() == Some(&b' ')).then_some((listed, rest));
    }
    None
}

/// `listed` with its name, and where it leads.
fn named(mut listed: Listed, name: &[u8]) -> Option<Listed> {
    const LEADS: &[u8] = b" -> ";
    let is_linked = listed.kind == FileKind::Symlink || listed.same_as.is_some();
    let arrow = name
        .windows(LEADS.len())
        .position(|window| window == LEADS)
        .filter(|_| is_linked);
    let (name, target) = match arrow {
        Some(at) => (&name[..at], Some(&name[at + LEADS.len()..])),
        None => (name, None),
    };
    let mut path = name;
    loop {
        path = match path {
            [b'/', rest @ ..] | [b'.', b'/', rest @ ..] => rest,
            _ => break,
        };
    }
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    if path.is_empty() || path == b"." || path.contains(&0) {
        return None;
    }
    listed.path = path.to_vec();
    let other = listed.same_as.take();
    match (listed.kind, target) {
        // `local:` is the way out of the archive.
        (FileKind::Symlink, Some(target)) if !target.is_empty() => {
            listed.target = target.strip_prefix(b"local:").unwrap_or(target).to_vec();
        }
        (FileKind::Symlink, _) => return None,
        (FileKind::Directory, _) => {}
        (_, Some(target)) if other.is_some() => listed.same_as = Some(target.to_vec()),
        _ => {}
    }
    Some(listed)
}

/// Where the words of `line` begin and end.
fn words(line: &[u8]) -> Vec<(usize, usize)> {
    /// More are part of a name.
    const MOST: usize = 16;
    let is_gap = |byte: u8| byte == b' ' || byte == b'\t';
    let (mut words, mut at) = (Vec::new(), 0);
    while words.len() < MOST {
        let Some(start) = line[at..].iter().position(|&byte| !is_gap(byte)) else {
            break;
        };
        let start = at + start;
        let length = line[start..].iter().position(|&byte| is_gap(byte));
        at = length.map_or(line.len(), |length| start + length);
        words.push((start, at));
    }
    words
}

fn word<'a>(line: &'a [u8], words: &[(usize, usize)], number: usize) -> Option<&'a [u8]> {
    words.get(number).map(|&(start, end)| &line[start..end])
}

fn number(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(word).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// `drwxr-xr-x`, and what may stand behind it (`.`, `+`, `@`).
fn mode(word: &[u8]) -> Option<(FileKind, u32)> {
    let (&kind, rest) = word.split_first()?;
    let kind = match kind {
        b'-' => FileKind::Regular,
        b'd' => FileKind::Directory,
        b'l' => FileKind::Symlink,
        b'p' => FileKind::Fifo,
        b'c' => FileKind::CharacterDevice,
        b'b' => FileKind::BlockDevice,
        b's' => FileKind::Socket,
        _ => return None,
    };
    let (letters, rest) = rest.split_at_checked(9)?;
    if !matches!(rest, [] | [b'.' | b'+' | b'@']) {
        return None;
    }
    let mut bits = 0;
    for (class, letters) in letters.chunks(3).enumerate() {
        let shift = 6 - 3 * class as u32;
        let special = 0o4000 >> class;
        for (letter, allowed, bit) in [(letters[0], b'r', 4), (letters[1], b'w', 2)] {
            match letter {
                b'-' => {}
                letter if letter == allowed => bits |= bit << shift,
                _ => return None,
            }
        }
        bits |= match letters[2] {
            b'-' => 0,
            b'x' => 1 << shift,
            b's' | b't' => 1 << shift | special,
            b'S' | b'T' | b'l' | b'L' => special,
            _ => return None,
        };
    }
    Some((kind, bits))
}

/// The time that `words` begin with, and how many of them it takes.
fn date(line: &[u8], words: &[(usize, usize)], now: i64) -> Option<(i64, usize)> {
    let mut at = 0;
    let first = word(line, words, 0)?;
    let of = |names: &[&[u8; 3]], word: &[u8]| {
        let found = names
            .iter()
            .position(|name| word.eq_ignore_ascii_case(&name[..]));
        found.map(|found| found as i64 + 1)
    };
    let has_day = of(&DAYS, first).is_some();
    at += usize::from(has_day);
    let next = |at: usize| word(line, words, at);
    let (mut year, month, day);
    if let Some(name) = of(&MONTHS, next(at)?) {
        month = name;
        day = number(next(at + 1)?)? as i64;
        year = None;
        at += 2;
    } else {
        let mut parts = next(at)?.split(|&byte| byte == b'-' || byte == b'/');
        let parts: [&[u8]; 3] = [parts.next()?, parts.next()?, parts.next()?];
        let [a, b, c] = [number(parts[0])?, number(parts[1])?, number(parts[2])?];
        let (y, m, d) = match parts[0].len() {
            4 => (a, b, c),
            _ => (c, a, b),
        };
        (year, month, day) = (Some(full_year(y)?), m.min(99) as i64, d.min(99) as i64);
        at += 1;
    }
    let mut time = None;
    match next(at).and_then(clock) {
        Some(found) => {
            time = Some(found);
            at += 1;
            // As ctime(3) has it.
            if let Some(found) = next(at).and_then(number)
                && has_day
                && year.is_none()
            {
                year = Some(full_year(found)?);
                at += 1;
            }
        }
        None if year.is_none() => {
            year = Some(full_year(number(next(at)?)?)?);
            at += 1;
            // A name of this form is one where nothing comes behind it.
            if let Some(found) = next(at).and_then(clock)
                && next(at + 1).is_some()
            {
                time = Some(found);
                at += 1;
            }
        }
        None => {}
    }
    let time = time.unwrap_or((0, 0, 0));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let in_year = |year: i64| seconds((year, month, day), time, 0, 0).seconds;
    let when = match year {
        Some(year) => in_year(year),
        None => {
            // One day for those who live further east.
            let this = 1970 + now.div_euclid(365 * DAY + DAY / 4);
            let years = [this + 1, this, this - 1];
            let past = years
                .into_iter()
                .map(in_year)
                .find(|&when| when <= now + DAY);
            past.unwrap_or(now)
        }
    };
    Some((when, at))
}

/// The year, of which scripts print two digits, all four, or those since 1900.
fn full_year(number: u64) -> Option<i64> {
    match number as i64 {
        year @ 0..70 => Some(2000 + year),
        year @ 70..1000 => Some(1900 + year),
        year @ 1000..=9999 => Some(year),
        _ => None,
    }
}

/// `hh:mm`, `hh:mm:ss`.
fn clock(word: &[u8]) -> Option<(i64, i64, i64)> {
    let mut parts = word.split(|&byte| byte == b':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let second = parts.next();
    if parts.next().is_some() || hour.len() > 2 || minute.len() != 2 {
        return None;
    }
    // Fractions of seconds are left out.
    let whole = |text: &[u8]| number(text.split(|&byte| byte == b'.').next()?);
    let second = second.map_or(Some(0), whole)?;
    let (hour, minute) = (number(hour)?, number(minute)?);
    let valid = hour < 24 && minute < 60 && second <= 60;
    valid.then_some((hour as i64, minute as i64, second as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-03-01 00:00.
    const NOW: i64 = 1_709_251_200;

    fn one(line: &str) -> Option<Listed> {
        let mut listing = parse(line.as_bytes(), NOW);
        assert_eq!(listing.members.len() + listing.strange.len(), 1, "{line}");
        listing.members.pop()
    }

    #[test]
    fn dates_are_read_in_all_their_forms() {
        let time = |date: &str| {
            let listed = one(&alloc::format!("-rw-r--r-- 1 0 0 5 {date} name"))?;
            assert_eq!(listed.path, b"name", "{date}");
            Some(listed.mtime)
        };
        for (date, want) in [
            ("Jan 02 2024 13:05", 1_704_200_700),
            ("Jan  2 2024", 1_704_153_600),
            ("Jan 2 13:05", 1_704_200_700),
            ("Jan 2 13:05:09", 1_704_200_709),
            ("Mar 1 23:00", 1_709_334_000),
            ("Mar 3 00:00", 1_677_801_600),
            ("Tue Jan 2 13:05:09 2024", 1_704_200_709),
            ("01-02-2024 13:05", 1_704_200_700),
            ("01-02-24 13:05:09", 1_704_200_709),
            ("01-02-124 13:05", 1_704_200_700),
            ("01-02-1999 00:00", 915_235_200),
            ("2024-01-02 13:05:09.123456", 1_704_200_709),
        ] {
            assert_eq!(time(date), Some(want), "{date}");
        }
        for date in [
            "13-02-24 13:05",
            "Jan 32 2024",
            "Foo 2 2024",
            "2024",
            "Jan 2 25:00",
        ] {
            assert!(one(&alloc::format!("-rw-r--r-- 1 0 0 5 {date} name")).is_none());
        }
    }

    #[test]
    fn columns_may_be_missing_or_have_spaces() {
        let with = |line: &str| one(line).map(|found| (found.size, found.owner));
        let numbers = Some((5, (Some(1), Some(2))));
        assert_eq!(with("-rw-r--r-- 1 1 2 5 Jan 2 2024 n"), numbers);
        assert_eq!(with("-rw-r--r--   1 1\t2\t 5 Jan 2 2024 n"), numbers);
        assert_eq!(with("-rw-r--r--. 1 1 2 5 Jan 2 2024 n"), numbers);
        let names = Some((5, (None, None)));
        assert_eq!(with("-rw-r--r-- 1 me domain users 5 Jan 2 2024 n"), names);
        assert_eq!(with("-rw-r--r-- 5 Jan 2 2024 n"), names);
        for line in [
            "rw-r--r-- 1 0 0 5 Jan 2 2024 n",
            "-rw-r--q-- 1 0 0 5 Jan 2 2024 n",
            "-rw-r--r-- 1 0 0 -5 Jan 2 2024 n",
            "-rw-r--r-- 1 0 0 5 Jan 2 2024 ",
            "-rw-r--r-- 1 0 0 5 Jan 2 2024",
            "-rw-r--r-- 1 0 0 5 Jan 2 2024 ./",
            "lrwxrwxrwx 1 0 0 5 Jan 2 2024 link",
            "error: no such archive",
        ] {
            assert!(one(line).is_none(), "{line}");
        }
        let device = one("crw-rw---- 1 0 0 4, 64 Jan 2 2024 tty").unwrap();
        assert_eq!((device.device, device.size), ((4, 64), 0));
        let device = one("brw-rw---- 1 0 0 8,1 Jan 2 2024 sda1").unwrap();
        assert_eq!((device.device, device.owner), ((8, 1), (Some(0), Some(0))));
    }

    #[test]
    fn names_and_links_are_taken_apart() {
        let path = |line: &str| one(line).unwrap().path;
        assert_eq!(
            path("-rw-r--r-- 1 0 0 5 Jan 2 2024 ./a  b -> c"),
            b"a  b -> c"
        );
        assert_eq!(path("drwxr-xr-x 1 0 0 5 Jan 2 2024 /d/e/"), b"d/e");
        assert_eq!(path("-rw-r--r-- 1 0 0 5 Jan 2 2024 12:30"), b"12:30");
        assert_eq!(path("-rw-r--r-- 1 0 0 5 Jan 2 2024 12:30 12:31"), b"12:31");
        let link = one("lrwxrwxrwx 1 0 0 5 Jan 2 2024 a -> b -> c").unwrap();
        assert_eq!(
            (&link.path[..], &link.target[..]),
            (&b"a"[..], &b"b -> c"[..])
        );
        let link = one("lrwxrwxrwx 1 0 0 5 Jan 2 2024 a -> local:/etc").unwrap();
        assert_eq!(link.target, b"/etc");
        let second = one("-rwsr-xr-t 2 0 0 5 Jan 2 2024 a -> b").unwrap();
        assert_eq!(second.same_as.as_deref(), Some(&b"b"[..]));
        assert_eq!(second.permissions, 0o5755);
        let text = b"total 3\n-rw-r--r-- 1 0 0 5 Jan 2 2024  a\n\n-rw-r--r-- 1 0 0 5 Jan 2 2024   b\r\nx\n";
        let listing = parse(text, NOW);
        let paths: Vec<_> = listing.members.iter().map(|one| &one.path[..]).collect();
        assert_eq!(paths, [&b"a"[..], b" b"]);
        assert_eq!(listing.strange, [5]);
    }

    #[test]
    fn any_bytes_are_a_list() {
        const PIECES: &[&[u8]] = &[
            b"-rw-r--r--",
            b"lrwxrwxrwx",
            b" ",
            b"\n",
            b"\t",
            b"1",
            b"4,",
            b"Jan",
            b"01-02-24",
            b"2024",
            b"99999999999999999999",
            b"13:05",
            b"12:",
            b"->",
            b" -> ",
            b"name",
            b"\0",
            b"\xff",
            b"/",
            b".",
            b"",
            b"Mon",
            b"18446744073709551615",
            b"-",
            b"9-9-9",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..50_000 {
            let mut text = Vec::new();
            for _ in 0..24 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.extend_from_slice(PIECES[state as usize % PIECES.len()]);
            }
            for member in parse(&text, state as i64 >> 20).members {
                assert!(!member.path.is_empty() && !member.path.contains(&0));
            }
        }
    }
}
