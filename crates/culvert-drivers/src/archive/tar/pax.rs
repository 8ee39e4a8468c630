//! Extended headers (POSIX pax(1), "pax Extended Header") and what GNU tar, star and libarchive put
//! into them.

use super::number;
use alloc::vec::Vec;
use culvert::Timespec;

/// What extended headers say about the next member, or about all that follow. An empty value takes
/// a global one back.
#[derive(Clone, Default)]
pub struct Extended {
    /// `path`, also GNU's long name.
    pub path: Option<Vec<u8>>,
    /// `linkpath`, also GNU's long link.
    pub linkpath: Option<Vec<u8>>,
    /// `size`: bytes that follow the header.
    pub size: Option<u64>,
    /// `uid`.
    pub uid: Option<u64>,
    /// `gid`.
    pub gid: Option<u64>,
    /// `mtime`.
    pub mtime: Option<Timespec>,
    /// `SCHILY.xattr.*`: extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// `GNU.sparse.*`.
    pub sparse: Sparse,
}

/// GNU tar's sparse files in extended headers, formats 0.0, 0.1 and 1.0.
#[derive(Clone, Default)]
pub struct Sparse {
    /// `GNU.sparse.name`: the file's name (`path` is a made-up one).
    pub name: Option<Vec<u8>>,
    /// `GNU.sparse.size` or `.realsize`: the file's size.
    pub size: Option<u64>,
    /// `GNU.sparse.major`.
    pub major: Option<u64>,
    /// `GNU.sparse.offset` and `.numbytes` pairs, or `.map`.
    pub parts: Vec<(u64, u64)>,
    offset: Option<u64>,
    mapped: bool,
}

impl Sparse {
    /// Whether the member is sparse at all.
    pub fn is_present(&self) -> bool {
        self.size.is_some() || self.major.is_some()
    }

    /// Takes over the record `GNU.sparse.KEY`; none when its value makes no sense.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(number::decimal(value)?),
            b"major" => self.major = Some(number::decimal(value)?),
            b"offset" => self.offset = Some(number::decimal(value)?),
            b"numbytes" => {
                let part = (self.offset.take()?, number::decimal(value)?);
                self.parts.push(part);
            }
            b"map" => {
                self.mapped = true;
                self.parts.clear();
                let mut numbers = value.split(|&byte| byte == b',').map(number::decimal);
                while !value.is_empty()
                    && let Some(offset) = numbers.next()
                {
                    self.parts.push((offset?, numbers.next()??));
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Whether the map stands before the data (format 1.0).
    pub fn map_in_data(&self) -> bool {
        self.major.is_some_and(|major| major >= 1) && !self.mapped && self.parts.is_empty()
    }
}

/// How an extended header was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was understood.
    Good,
    /// An owner or a time makes no sense; the member's own header has others.
    Odd,
    /// It does not keep the form, or what it says about name, size or sparse map makes no sense.
    /// What came before is taken.
    Malformed,
}

impl Extended {
    /// Takes over the records of `payload`.
    pub fn parse(&mut self, mut payload: &[u8]) -> Outcome {
        let mut outcome = Outcome::Good;
        while !payload.is_empty() && payload[0] != 0 {
            let Some((key, value, rest)) = record(payload) else {
                return Outcome::Malformed;
            };
            match self.set(key, value) {
                Outcome::Malformed => return Outcome::Malformed,
                Outcome::Odd => outcome = Outcome::Odd,
                Outcome::Good => {}
            }
            payload = rest;
        }
        outcome
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        /// An empty value takes an earlier one back.
        fn take<T>(
            field: &mut Option<T>,
            value: &[u8],
            parsed: Option<T>,
            bad: Outcome,
        ) -> Outcome {
            let good = parsed.is_some() || value.is_empty();
            *field = parsed;
            if good { Outcome::Good } else { bad }
        }
        let (bytes, number) = (
            (!value.is_empty()).then(|| value.to_vec()),
            number::decimal(value),
        );
        match key {
            b"path" => self.path = bytes,
            b"linkpath" => self.linkpath = bytes,
            b"size" => return take(&mut self.size, value, number, Outcome::Malformed),
            b"uid" => return take(&mut self.uid, value, number, Outcome::Odd),
            b"gid" => return take(&mut self.gid, value, number, Outcome::Odd),
            b"mtime" => return take(&mut self.mtime, value, time(value), Outcome::Odd),
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    return match self.sparse.set(key, value) {
                        Some(()) => Outcome::Good,
                        None => Outcome::Malformed,
                    };
                }
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.")
                    && !name.is_empty()
                    && name.len() <= 255
                {
                    self.xattrs.retain(|(known, _)| known != name);
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Outcome::Good
    }

    /// These, and where they are silent `global`.
    #[must_use]
    pub fn over(mut self, global: &Self) -> Self {
        fn or<T: Clone>(own: &mut Option<T>, global: &Option<T>) {
            if own.is_none() {
                own.clone_from(global);
            }
        }
        or(&mut self.path, &global.path);
        or(&mut self.linkpath, &global.linkpath);
        or(&mut self.size, &global.size);
        or(&mut self.uid, &global.uid);
        or(&mut self.gid, &global.gid);
        or(&mut self.mtime, &global.mtime);
        if self.xattrs.is_empty() {
            self.xattrs.clone_from(&global.xattrs);
        }
        self
    }
}

/// The first record, "LENGTH KEY=VALUE\n", of `payload`: key, value and what follows.
fn record(payload: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = payload.iter().take(20).position(|&byte| byte == b' ')?;
    let length = usize::try_from(number::decimal(&payload[..space])?).ok()?;
    let record = payload.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &payload[length..]))
}

/// Seconds since the epoch, perhaps negative, perhaps with a fraction; what is finer than a
/// nanosecond is cut off towards the past.
fn time(text: &[u8]) -> Option<Timespec> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let whole = i64::try_from(number::decimal(parts.next()?)?).ok()?;
    let (mut nanoseconds, mut finer) = (0u32, false);
    if let Some(fraction) = parts.next() {
        if !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        for at in 0..9 {
            nanoseconds =
                nanoseconds * 10 + u32::from(fraction.get(at).map_or(0, |digit| digit - b'0'));
        }
        finer = fraction.iter().skip(9).any(|&digit| digit != b'0');
    }
    if !negative {
        return Some(Timespec {
            seconds: whole,
            nanoseconds,
        });
    }
    nanoseconds += u32::from(finer);
    let borrow = nanoseconds > 0;
    Some(Timespec {
        seconds: -whole - i64::from(borrow),
        nanoseconds: if borrow {
            1_000_000_000 - nanoseconds
        } else {
            0
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(extended: &mut Extended, payload: &[u8]) -> bool {
        extended.parse(payload) == Outcome::Good
    }

    #[test]
    fn an_odd_owner_or_time_is_not_damage() {
        let mut extended = Extended::default();
        let payload = b"10 uid=-2\n11 mtime=x\n9 path=a\n";
        assert_eq!(extended.parse(payload), Outcome::Odd);
        assert_eq!(extended.path.as_deref(), Some(&b"a"[..]));
        assert_eq!((extended.uid, extended.mtime), (None, None));
        assert_eq!(extended.parse(b"10 size=-1\n"), Outcome::Malformed);
        assert_eq!(extended.parse(b"9 path=a"), Outcome::Malformed);
    }

    #[test]
    fn times() {
        type Parts = Option<(i64, u32)>;
        let table: [(&[u8], Parts); 9] = [
            (b"0", Some((0, 0))),
            (b"12.5", Some((12, 500_000_000))),
            (b"12.0000000019", Some((12, 1))),
            (b"-1", Some((-1, 0))),
            (b"-1.25", Some((-2, 750_000_000))),
            (b"-0.0000000001", Some((-1, 999_999_999))),
            (b"", None),
            (b"1e5", None),
            (b"99999999999999999999", None),
        ];
        for (text, expected) in table {
            let got = time(text).map(|time| (time.seconds, time.nanoseconds));
            assert_eq!(
                got,
                expected,
                "{}",
                std::string::String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn records_keep_to_their_lengths() {
        let mut extended = Extended::default();
        assert!(good(
            &mut extended,
            b"9 path=a\n12 size=123\n28 SCHILY.xattr.user.a=\n=\x00\n\n"
        ));
        assert_eq!(extended.path.as_deref(), Some(&b"a"[..]));
        assert_eq!(extended.size, Some(123));
        assert_eq!(extended.xattrs, [(b"user.a".to_vec(), b"\n=\0\n".to_vec())]);
        for bad in [
            &b"9 path=a"[..],
            b"8 path=a\n",
            b"999999999999999999999999 path=a\n",
            b"path=a\n",
            b"0 \n",
            b"3 \n",
            b"12 size=-12\n",
            b"11 mtime=x\n",
        ] {
            assert_ne!(Extended::default().parse(bad), Outcome::Good, "{bad:?}");
        }
    }

    #[test]
    fn sparse_maps_of_formats_0_0_and_0_1() {
        let mut extended = Extended::default();
        assert!(good(
            &mut extended,
            b"22 GNU.sparse.size=10\n23 GNU.sparse.offset=1\n25 GNU.sparse.numbytes=2\n"
        ));
        assert!(extended.sparse.is_present() && !extended.sparse.map_in_data());
        assert_eq!(extended.sparse.parts, [(1, 2)]);
        let mut extended = Extended::default();
        assert!(!good(&mut extended, b"23 GNU.sparse.map=1,2,\n"));
        let mut extended = Extended::default();
        assert!(good(&mut extended, b"26 GNU.sparse.map=1,2,5,1\n"));
        assert_eq!(extended.sparse.parts, [(1, 2), (5, 1)]);
    }
}
