//! Which number stands for the insides of which file, the same in all processes of a run.
//!
//! ```text
//! RUN/avfs.N/NUMBER      a link whose target says which: identity of the file, and its path
//! ```
//!
//! A node in it is 1, the number in 30 bits, and the node that the archive has for it in 33.

use crate::archive::hash;
use crate::archive::host::terminated;
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    vec::Vec,
};
use culvert::{Errno, Error, Node, Result, Timespec, sync::Mutex};
use culvert_sys::{fd::CWD, fs};

/// Bits of the number of a node in an archive.
const INNER: u32 = 33;
/// Bits of the number of an archive.
const NUMBERS: u32 = 30;
/// How many numbers a process knows at most. Of more it forgets the oldest, and removes their links
/// where it made them: a file that is looked up again gets the same number in all likelihood, whose
/// node was kept all the while meets what the driver below says of an unknown one.
const MOST: usize = 1 << 16;
/// How many numbers are tried for one.
const TRIES: u32 = 64;
const VIRTUAL: u64 = 1 << 63;

/// That of `/#avfsstat`.
pub const STATUS: u32 = 0;

/// A node of ours.
pub const fn encode(number: u32, inner: Node) -> Node {
    Node(VIRTUAL | (number as u64) << INNER | inner.0)
}

/// The number and the node within, if it looks like one of ours.
pub const fn decode(node: Node) -> Option<(u32, Node)> {
    if node.0 & VIRTUAL == 0 {
        return None;
    }
    let number = (node.0 & !VIRTUAL) >> INNER;
    Some((number as u32, Node(node.0 & ((1 << INNER) - 1))))
}

/// What a number stands for: the file at `path`, as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its inode number, size and time of the last change.
    pub identity: (u64, u64, Timespec),
    /// Its path below the mount, and how it is looked into.
    pub path: Vec<u8>,
}

impl Key {
    fn text(&self) -> Vec<u8> {
        let (inode, size, time) = self.identity;
        let (seconds, nanoseconds) = (time.seconds, time.nanoseconds);
        let identity = format!("{inode:x}.{size:x}.{seconds:x}.{nanoseconds:x}:");
        [identity.as_bytes(), &self.path].concat()
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|&byte| byte == b':')?;
        let identity = core::str::from_utf8(&text[..end]).ok()?;
        let mut parts = identity.split('.');
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (inode, size, seconds, nanoseconds) = (part()?, part()?, part()?, part()?);
        let time = Timespec {
            seconds: seconds as i64,
            nanoseconds: u32::try_from(nanoseconds).ok()?,
        };
        Some(Self {
            identity: (inode, size, time),
            path: text[end + 1..].to_vec(),
        })
    }
}

/// The numbers that this process knows, and where those of the run stand.
pub struct Table {
    directory: Option<Vec<u8>>,
    most: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: BTreeMap<Key, u32>,
    keys: BTreeMap<u32, Key>,
    /// All, the oldest first, and whether the link was made here.
    order: VecDeque<(u32, bool)>,
}

impl Table {
    /// That of the run, in `directory`; none: of this process alone.
    pub fn new(directory: Option<&[u8]>) -> Self {
        Self {
            directory: directory.map(<[u8]>::to_vec),
            most: MOST,
            known: Mutex::default(),
        }
    }

    fn link_of(&self, number: u32) -> Option<Vec<u8>> {
        let directory = self.directory.as_ref()?;
        Some([directory, format!("/{number:x}").as_bytes()].concat())
    }

    /// The number of `key` if this process knows it.
    pub fn known(&self, key: &Key) -> Option<u32> {
        self.known.lock().numbers.get(key).copied()
    }

    /// Knows `number` from now on, and forgets the oldest where those are too many.
    fn know(&self, known: &mut Known, number: u32, key: &Key, made: bool) {
        known.numbers.insert(key.clone(), number);
        if known.keys.insert(number, key.clone()).is_none() {
            known.order.push_back((number, made));
        }
        while known.order.len() > self.most {
            let Some((oldest, made)) = known.order.pop_front() else {
                break;
            };
            if let Some(key) = known.keys.remove(&oldest) {
                known.numbers.remove(&key);
            }
            if made && let Some(link) = self.link_of(oldest).and_then(|link| terminated(&link).ok())
            {
                let _ = fs::unlink(&link);
            }
        }
    }

    /// The number of `key`.
    pub fn number(&self, key: &Key) -> Result<u32> {
        let mut known = self.known.lock();
        if let Some(&number) = known.numbers.get(key) {
            return Ok(number);
        }
        let text = key.text();
        let first = hash::of_name(0, &text) as u32;
        for step in 0..TRIES {
            let number = (first.wrapping_add(step) & ((1 << NUMBERS) - 1)).max(STATUS + 1);
            if known.keys.contains_key(&number) {
                continue;
            }
            if let Some(made) = self.take(number, &text)? {
                self.know(&mut known, number, key, made);
                return Ok(number);
            }
        }
        Err(Error::because(
            Errno::ENFILE,
            "no number is free for the insides of another file",
        ))
    }

    /// Says in the run that `number` stands for `text`, and whether that was new; none: it stands
    /// for another.
    fn take(&self, number: u32, text: &[u8]) -> Result<Option<bool>> {
        let Some(link) = self.link_of(number) else {
            return Ok(Some(false));
        };
        let link = terminated(&link)?;
        match fs::symlink(&terminated(text)?, &link) {
            Ok(()) => Ok(Some(true)),
            Err(Errno::EEXIST) => {
                let same = fs::read_link(CWD, &link).is_ok_and(|found| found == text);
                Ok(same.then_some(false))
            }
            // A process that may not write there, or a path too long for a link: no other process
            // hears of it.
            Err(_) => Ok(Some(false)),
        }
    }

    /// What `number` stands for.
    pub fn key(&self, number: u32) -> Option<Key> {
        if let Some(key) = self.known.lock().keys.get(&number) {
            return Some(key.clone());
        }
        let link = terminated(&self.link_of(number)?).ok()?;
        let key = Key::parse(&fs::read_link(CWD, &link).ok()?)?;
        self.know(&mut self.known.lock(), number, &key, false);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &[u8]) -> Key {
        let time = Timespec {
            seconds: -3,
            nanoseconds: 4,
        };
        Key {
            identity: (1, 2, time),
            path: path.to_vec(),
        }
    }

    #[test]
    fn numbers_are_the_same_in_all_processes() {
        let name = std::format!("culvert-avfs-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).unwrap();
        let directory = place.to_str().unwrap().as_bytes();
        let [one, other] = [(); 2].map(|()| Table::new(Some(directory)));
        let keys = [key(b"a:b#"), key(b"c#")];
        let numbers = keys.each_ref().map(|key| one.number(key).unwrap());
        assert_ne!(numbers[0], numbers[1]);
        assert_eq!(other.key(numbers[0]).as_ref(), Some(&keys[0]));
        assert_eq!(other.number(&keys[1]).unwrap(), numbers[1]);
        // A number that is taken is passed over.
        let third = key(b"d#");
        let alone = Table::new(None);
        let wanted = alone.number(&third).unwrap();
        std::os::unix::fs::symlink("0.0.0.0:else", place.join(std::format!("{wanted:x}"))).unwrap();
        assert_ne!(other.number(&third).unwrap(), wanted);
        assert_eq!(one.key(wanted).unwrap().path, b"else");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let name = std::format!("culvert-avfs-oldest-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).unwrap();
        let table = Table {
            most: 2,
            ..Table::new(Some(place.to_str().unwrap().as_bytes()))
        };
        let keys = [key(b"a#"), key(b"b#"), key(b"c#")];
        let numbers = keys.each_ref().map(|key| table.number(key).unwrap());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
        assert_eq!(table.known(&keys[0]), None);
        assert_eq!(table.key(numbers[0]), None);
        assert_eq!(table.known(&keys[2]), Some(numbers[2]));
        assert_eq!(table.number(&keys[0]).unwrap(), numbers[0]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn nodes_are_told_apart() {
        let node = encode(STATUS + 77, Node(1 << 32));
        assert_eq!(decode(node), Some((77, Node(1 << 32))));
        assert_eq!(decode(Node(77)), None);
    }
}
