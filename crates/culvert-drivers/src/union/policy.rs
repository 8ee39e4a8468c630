//! Which branches an operation is about: mergerfs's policies.

use crate::archive::host;
use alloc::vec::Vec;
use core::cmp::Ordering;
use culvert::{Errno, StatFs, Timespec};

/// A policy: which branches it may choose, and which of these it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// As the user writes it.
    pub name: &'static str,
    reach: Reach,
    choice: Choice,
}

/// Which branches a policy may choose to create on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All: the directory is made where it is missing.
    Every,
    /// Those that have the directory ("existing path").
    Existing,
    /// The same, or else those that have the one above it, and so on ("most shared path").
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    All,
    First,
    LeastFree,
    LeastUsed,
    /// Of its own size.
    LeastPercent,
    MostFree,
    SmallestTotal,
    Newest,
    /// At random, weighted by free space ("percentage free random distribution").
    RandomByFree,
    Random,
    /// None: `EROFS`.
    Refuse,
}

use Choice as C;
use Reach::{Every, Existing, Shared};

/// Defines the names and the policies that they are for. There is no table of them, whose addresses
/// ld.so would relocate in each process.
macro_rules! policies {
    ($($name:literal $reach:ident $choice:ident,)*) => {
        /// The names of all, a line each.
        const NAMES: &str = concat!($($name, "\n"),*);

        fn find(name: &str) -> Option<Policy> {
            let (name, reach, choice) = match name {
                $($name => ($name, $reach, C::$choice),)*
                _ => return None,
            };
            Some(Policy { name, reach, choice })
        }
    };
}

policies! {
    "all" Every All,
    "epall" Existing All,
    "epff" Existing First,
    "eplfs" Existing LeastFree,
    "eplus" Existing LeastUsed,
    "epmfs" Existing MostFree,
    "eppfrd" Existing RandomByFree,
    "eprand" Existing Random,
    "epsts" Existing SmallestTotal,
    "erofs" Every Refuse,
    "ff" Every First,
    "lfs" Every LeastFree,
    "lup" Every LeastPercent,
    "lus" Every LeastUsed,
    "mfs" Every MostFree,
    "msplfs" Shared LeastFree,
    "msplus" Shared LeastUsed,
    "mspmfs" Shared MostFree,
    "msppfrd" Shared RandomByFree,
    "newest" Existing Newest,
    "pfrd" Every RandomByFree,
    "rand" Every Random,
    "sts" Every SmallestTotal,
}

/// One that a policy may choose.
#[derive(Clone, Copy)]
pub struct Candidate {
    /// Which branch.
    pub index: usize,
    /// When what is asked about was last changed there, where it is there.
    pub modified: Option<Timespec>,
    /// The branch's.
    pub space: Space,
}

/// What branches have: in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// For ordinary users.
    pub available: u64,
    /// What ordinary users cannot have any more: with the blocks that are kept for root, as
    /// mergerfs counts.
    pub used: u64,
    /// In all.
    pub total: u64,
}

impl Space {
    /// That of the file system of which statfs(2) says `found`.
    pub fn of(found: &StatFs) -> Self {
        let unit = u64::from(found.block_size);
        let used = found.blocks.saturating_sub(found.blocks_available);
        Self {
            available: found.blocks_available.saturating_mul(unit),
            used: used.saturating_mul(unit),
            total: found.blocks.saturating_mul(unit),
        }
    }

    /// Its used part beside that of `other`, exactly.
    fn by_used_part(&self, other: &Self) -> Ordering {
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other.max(1));
        product(self.used, other.total).cmp(&product(other.used, self.total))
    }
}

impl Policy {
    /// The policy called `name`.
    pub fn named(name: &[u8]) -> Option<Self> {
        find(core::str::from_utf8(name).ok()?)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        NAMES.lines()
    }

    /// Where it may create.
    pub const fn reach(self) -> Reach {
        self.reach
    }

    /// Whether renames and links keep to the paths that there are, too; those of `newest` do not.
    pub const fn keeps_paths(self) -> bool {
        !matches!((self.reach, self.choice), (Every, _) | (_, C::Newest))
    }

    /// Whether what it finds is the first that there is.
    pub const fn is_first(self) -> bool {
        matches!(self.choice, C::First | C::All)
    }

    /// Whether it chooses the first that there is, and no more.
    pub const fn is_the_first(self) -> bool {
        matches!(self.choice, C::First)
    }

    /// Whether it asks when things were changed.
    pub const fn is_newest(self) -> bool {
        matches!(self.choice, C::Newest)
    }

    /// Whether it asks for branches' space.
    pub const fn weighs_space(self) -> bool {
        !matches!(
            self.choice,
            C::All | C::First | C::Newest | C::Random | C::Refuse
        )
    }

    /// Whether it weighs free space, of which there may be none.
    pub const fn is_random_by_free(self) -> bool {
        matches!(self.choice, C::RandomByFree)
    }

    /// Chooses among `candidates`, in the order of branches: several for `all` and `epall` alone.
    /// Empty when there are none.
    pub fn choose(self, candidates: &[Candidate]) -> Vec<usize> {
        self.choose_by(candidates, host::random)
    }

    /// The same; `random` is any number.
    fn choose_by(self, candidates: &[Candidate], random: impl Fn() -> u64) -> Vec<usize> {
        let space = |candidate: &Candidate| candidate.space;
        let one = |chosen: Option<&Candidate>| chosen.map(|chosen| chosen.index);
        let chosen = match self.choice {
            C::All => return candidates.iter().map(|one| one.index).collect(),
            C::Refuse => None,
            C::First => one(candidates.first()),
            // Of equal ones the last, as mergerfs; of the other policies the first.
            C::LeastFree => one(candidates
                .iter()
                .rev()
                .min_by_key(|one| space(one).available)),
            C::LeastUsed => one(candidates.iter().min_by_key(|one| space(one).used)),
            C::LeastPercent => one(candidates
                .iter()
                .min_by(|one, other| one.space.by_used_part(&other.space))),
            C::SmallestTotal => one(candidates.iter().min_by_key(|one| space(one).total)),
            C::MostFree => one(candidates.iter().max_by_key(|one| space(one).available)),
            C::Newest => one(candidates.iter().max_by_key(|one| one.modified)),
            C::Random => one(candidates.get(below(candidates.len() as u64, random) as usize)),
            C::RandomByFree => {
                let spaces = candidates.iter().map(|one| space(one).available);
                let spaces: Vec<u64> = spaces.collect();
                weighted(&spaces, random).and_then(|at| one(candidates.get(at)))
            }
        };
        chosen.into_iter().collect()
    }
}

/// A number below `limit`, or 0, made of a `random` one.
fn below(limit: u64, random: impl Fn() -> u64) -> u64 {
    random().checked_rem(limit).unwrap_or(0)
}

/// One of `weights`, each as often as it weighs.
fn weighted(weights: &[u64], random: impl Fn() -> u64) -> Option<usize> {
    let sum = weights
        .iter()
        .fold(0, |sum: u64, one| sum.saturating_add(*one));
    let mut left = below(sum, random);
    for (at, &weight) in weights.iter().enumerate() {
        if left < weight {
            return Some(at);
        }
        left -= weight;
    }
    None
}

/// The errno of two branches that refused: that there is no space says more than that there is no
/// writing, and this more than that there is nothing.
pub fn worse(one: Errno, other: Errno) -> Errno {
    let rank = |errno| match errno {
        Errno::ENOENT => 0,
        Errno::EROFS => 1,
        Errno::ENOSPC => 2,
        _ => 3,
    };
    match rank(other) > rank(one) {
        true => other,
        false => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of 100 blocks of 4096 bytes, with so many free, and free for users.
    fn blocks((blocks_free, blocks_available): (u64, u64)) -> StatFs {
        StatFs {
            block_size: 4096,
            blocks: 100,
            blocks_free,
            blocks_available,
            ..StatFs::default()
        }
    }

    #[test]
    fn what_is_kept_for_root_is_used() {
        for (free, used, available) in [((40, 40), 60, 40), ((40, 35), 65, 35), ((0, 0), 100, 0)] {
            let found = Space::of(&blocks(free));
            assert_eq!(found.used, used * 4096, "{free:?}");
            assert_eq!(found.available, available * 4096, "{free:?}");
            assert_eq!(found.total, 100 * 4096, "{free:?}");
        }
        let more_than_all = Space::of(&blocks((100, 101)));
        assert_eq!(more_than_all.used, 0);
    }

    /// Of five branches, by what is free, used and in all, and by when the name was changed there.
    #[test]
    fn each_policy_chooses() {
        let of = |(index, (available, used, total), modified)| Candidate {
            index,
            modified: Some(Timespec {
                seconds: modified,
                nanoseconds: 0,
            }),
            space: Space {
                available,
                used,
                total,
            },
        };
        // The indexes are those of branches: candidates may be a part of them.
        let candidates = [
            (1, (30, 70, 100), 5),
            (2, (10, 20, 30), 9),
            (4, (60, 940, 1000), 1),
            (5, (20, 20, 40), 9),
            (7, (60, 40, 100), 3),
        ]
        .map(of);
        // Of what is free the sum is 180: 30, 10, 60, 20 and 60 of it.
        for (policies, random, want) in [
            (&["ff", "epff"][..], 0, &[1][..]),
            (&["all", "epall"], 0, &[1, 2, 4, 5, 7]),
            (&["erofs"], 0, &[]),
            (&["lfs", "eplfs", "msplfs"], 0, &[2]),
            // Of equal ones the first.
            (&["lus", "eplus", "msplus"], 0, &[2]),
            (&["lup"], 0, &[7]),
            (&["sts", "epsts"], 0, &[2]),
            // Of equal ones the last.
            (&["mfs", "epmfs", "mspmfs"], 0, &[7]),
            (&["newest"], 0, &[5]),
            (&["rand", "eprand"], 0, &[1]),
            (&["rand", "eprand"], 3, &[5]),
            (&["rand", "eprand"], 5 * 7 + 4, &[7]),
            (&["pfrd", "eppfrd", "msppfrd"], 0, &[1]),
            (&["pfrd", "eppfrd", "msppfrd"], 29, &[1]),
            (&["pfrd", "eppfrd", "msppfrd"], 30, &[2]),
            (&["pfrd", "eppfrd", "msppfrd"], 40, &[4]),
            (&["pfrd", "eppfrd", "msppfrd"], 119, &[5]),
            (&["pfrd", "eppfrd", "msppfrd"], 180 * 3 + 120, &[7]),
        ] {
            for name in policies {
                let policy = Policy::named(name.as_bytes()).unwrap();
                let chosen = policy.choose_by(&candidates, || random);
                assert_eq!(chosen, want, "{name} {random}");
                assert!(policy.choose_by(&[], || random).is_empty(), "{name}");
            }
        }
        // One more in a thousand millions is more.
        let close = [
            (0, (1, 999_999_999, 1_000_000_000), 0),
            (1, (2, 999_999_998, 1_000_000_000), 0),
        ];
        let least = Policy::named(b"lup").unwrap();
        assert_eq!(least.choose_by(&close.map(of), || 0), [1]);
        let full = [(0, (0, 9, 9), 0), (1, (0, 9, 9), 0)].map(of);
        let weighs = Policy::named(b"pfrd").unwrap();
        assert!(weighs.choose_by(&full, || 1).is_empty());
    }

    #[test]
    fn weights_are_kept_to() {
        assert_eq!(weighted(&[0, 5, 0], host::random), Some(1));
        assert_eq!(weighted(&[0, 0], host::random), None);
        let mut seen = [0; 3];
        for _ in 0..4000 {
            seen[weighted(&[1 << 40, 0, 3 << 40], host::random).unwrap()] += 1;
        }
        assert!(seen[1] == 0 && seen[0] > 700 && seen[2] > 2600, "{seen:?}");
    }

    #[test]
    fn what_says_most_is_the_error() {
        let [none, fixed, full] = [Errno::ENOENT, Errno::EROFS, Errno::ENOSPC];
        for (one, other, want) in [
            (none, fixed, fixed),
            (fixed, none, fixed),
            (full, fixed, full),
            (none, Errno::EACCES, Errno::EACCES),
        ] {
            assert_eq!(worse(one, other), want);
        }
    }
}
