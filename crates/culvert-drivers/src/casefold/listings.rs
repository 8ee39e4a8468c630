//! What directories hold, by folded name.
//!
//! A listing is believed while nobody of the run has changed names, the directory has the times
//! that it had, and for [`BELIEVED`] at most: what others make in a directory whose times do not
//! tell it is seen then.

use super::fold::Folding;
use alloc::{collections::BTreeSet, vec::Vec};
use culvert::{Caller, FileSystem, Node, Result, Timespec, sync::Mutex};
use culvert_sys::clock::Clock;

/// Nanoseconds for which a listing is believed.
const BELIEVED: u64 = 100_000_000;
/// As many directories are kept,
const DIRECTORIES: usize = 16;
/// and no larger ones.
const NAMES: usize = 65_536;

/// The listings that this process has.
pub struct Listings {
    folding: Folding,
    clock: Clock,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// How many changes of names there were when all of them were right.
    changes: u64,
    /// The one used last at the end.
    all: Vec<Listing>,
}

struct Listing {
    dir: Node,
    times: [Timespec; 2],
    read: u64,
    /// Folded and as they are: of those that fold alike the smallest comes first.
    names: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

impl Listing {
    /// The name in it that is the same as `name`, whose key is `key`.
    fn find(&self, key: Vec<u8>, name: &[u8]) -> Option<Vec<u8>> {
        let mut alike = self.names.range((key.clone(), Vec::new())..).peekable();
        let is_alike = |found: &&&(Vec<u8>, Vec<u8>)| found.0 == key;
        let first = alike.peek().filter(is_alike).map(|found| found.1.clone())?;
        let mut alike = alike.take_while(|found| found.0 == key);
        Some(match alike.any(|found| found.1 == name) {
            true => name.to_vec(),
            false => first,
        })
    }
}

/// Times of `dir`, of which one moves with each change of its names.
fn times(fs: &dyn FileSystem, dir: Node) -> Result<[Timespec; 2]> {
    let found = fs.attributes(&Caller::SYSTEM, dir)?;
    Ok([found.mtime, found.ctime])
}

impl Listings {
    /// None yet.
    pub fn new(folding: Folding) -> Self {
        Self {
            folding,
            clock: Clock::new(),
            known: Mutex::default(),
        }
    }

    /// Which names are the same.
    pub const fn folding(&self) -> Folding {
        self.folding
    }

    fn now(&self) -> u64 {
        let (seconds, nanoseconds) = self.clock.now();
        seconds as u64 * 1_000_000_000 + u64::from(nanoseconds)
    }

    /// The name in `dir` that is the same as `name`: itself, else the smallest one. `changes`: how
    /// many changes of names there were before this was asked.
    pub fn find(
        &self,
        fs: &dyn FileSystem,
        caller: &Caller<'_>,
        changes: u64,
        (dir, name): (Node, &[u8]),
    ) -> Result<Option<Vec<u8>>> {
        let Some(key) = self.folding.key(name) else {
            return Ok(None);
        };
        let (times, now) = (times(fs, dir)?, self.now());
        {
            let mut known = self.known.lock();
            if known.changes != changes {
                known.all.clear();
            } else if let Some(at) = known.all.iter().position(|one| one.dir == dir) {
                let listing = known.all.remove(at);
                let age = now.wrapping_sub(listing.read);
                if listing.times == times && age < BELIEVED {
                    let found = listing.find(key, name);
                    known.all.push(listing);
                    return Ok(found);
                }
            }
        }
        let mut names = BTreeSet::new();
        fs.read_directory(caller, dir, 0, &mut |entry| {
            if let Some(key) = self.folding.key(entry.name) {
                names.insert((key, entry.name.to_vec()));
            }
            true
        })?;
        let listing = Listing {
            dir,
            times,
            read: now,
            names,
        };
        let found = listing.find(key, name);
        if listing.names.len() <= NAMES {
            let mut known = self.known.lock();
            if known.changes != changes {
                known.all.clear();
                known.changes = changes;
            }
            known.all.retain(|one| one.dir != dir);
            if known.all.len() == DIRECTORIES {
                known.all.remove(0);
            }
            known.all.push(listing);
        }
        Ok(found)
    }

    /// A change of names in `dirs`, the `changes`th, was this process's own: `removed` are no more,
    /// `added` are new.
    pub fn changed(
        &self,
        fs: &dyn FileSystem,
        changes: u64,
        removed: &[(Node, &[u8])],
        added: &[(Node, &[u8])],
    ) {
        let mut known = self.known.lock();
        if known.changes.wrapping_add(1) != changes {
            known.all.clear();
            return;
        }
        known.changes = changes;
        for listing in &mut known.all {
            let here = |all: &[(Node, &[u8])]| all.iter().any(|(dir, _)| *dir == listing.dir);
            if !here(removed) && !here(added) {
                continue;
            }
            let pair = |name: &[u8]| Some((self.folding.key(name)?, name.to_vec()));
            for (dir, name) in removed {
                if *dir == listing.dir
                    && let Some(pair) = pair(name)
                {
                    listing.names.remove(&pair);
                }
            }
            for (dir, name) in added {
                if *dir == listing.dir
                    && let Some(pair) = pair(name)
                {
                    listing.names.insert(pair);
                }
            }
            match times(fs, listing.dir) {
                Ok(times) => listing.times = times,
                Err(_) => listing.read = 0,
            }
        }
    }

    /// What is known of `dir` was wrong.
    pub fn forget(&self, dir: Node) {
        self.known.lock().all.retain(|one| one.dir != dir);
    }
}
