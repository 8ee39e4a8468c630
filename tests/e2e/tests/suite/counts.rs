//! The system calls that twenty programs cost inside a run, counted and compared with
//! `golden/counts.txt`. Times are noisy; counts are not.
//!
//! The counts belong to the packages whose versions the file names: elsewhere nothing is compared.
//! `CULVERT_GOLDEN=write` writes the file anew; its difference then belongs to the change.

use culvert_e2e::{Case, Driver, User, installed, not_tested, world};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::Duration,
};

const PROGRAMS: &str = include_str!("../../golden/programs.txt");

/// Whose versions decide.
const PACKAGES: &[&str] = &[
    "libc6",
    "bash",
    "coreutils",
    "findutils",
    "grep",
    "sed",
    "mawk",
    "tar",
    "gzip",
    "python3.11",
    "make",
    "sqlite3",
    "git",
    "strace",
];

/// How often a count that differs is taken again: a signal or a lock that waits costs calls.
const TRIES: usize = 4;

/// How long a file must not have changed before its image is remembered (`images/store.rs`), and
/// half a second: a test that has made a link to the dynamic linker has changed it.
const SETTLED: Duration = Duration::from_millis(2500);

/// Calls that depend on who is served first.
const UNSTEADY: &[&str] = &[
    "brk",
    "futex",
    "mincore",
    "restart_syscall",
    "rt_sigreturn",
    "sched_yield",
];

/// Calls whose number depends on how long a text of /proc is, on where the library lies, or on
/// which directories' names have one hash (`vfs/misses.rs`): they may differ by [`FEW`].
const NEARLY: &[&str] = &["mmap", "munmap", "newfstatat", "openat2", "read"];
const FEW: u64 = 2;

/// What a look at the index of images takes, beside an mmap.
const OF_INDEX: [&str; 3] = ["openat", "fstat", "close"];

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/counts.txt"))
}

/// One line for the machine.
fn versions() -> String {
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package}=${Version} "])
        .args(PACKAGES)
        .output();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = kernel.split('.').take(2).collect();
    let packages = out.map_or(String::new(), |out| {
        String::from_utf8_lossy(&out.stdout).into_owned()
    });
    format!("# linux={} {}", kernel.join("."), packages.trim())
}

/// The counts of one program, a call each: `NAME COUNT`.
fn count(case: &Case, command: &str) -> BTreeMap<String, u64> {
    let done = case.through_culvert(&["bash", "-c", &script!("counts/count.sh", command)]);
    assert_eq!(done.status, "exit 0", "{command}\n{}", done.report());
    let text = done.text();
    let counted = text
        .split_once("== counted\n")
        .expect("the script says so")
        .1;
    let counts = counted.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    });
    let counts: BTreeMap<String, u64> = counts
        .filter(|(name, _)| name != "total" && !UNSTEADY.contains(&name.as_str()))
        .collect();
    assert!(counts.len() > 3, "{command}: {counts:?}\n{}", done.report());
    counts
}

/// The calls that differ: `NAME GOLDEN -> NOW`.
fn differing(golden: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> Vec<String> {
    let names: BTreeSet<&String> = golden.keys().chain(now.keys()).collect();
    let count = |counts: &BTreeMap<String, u64>, name: &String| counts.get(name).copied();
    let more = |name: &str| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0) as i64;
        of(now) - of(golden)
    };
    // Each of up to three programs opens the index of images or not, by what the store was asked
    // for first.
    let indexes = more("openat");
    let is_store = indexes.abs() <= 3 && OF_INDEX.iter().all(|name| more(name) == indexes);
    names
        .into_iter()
        .filter(|name| !(is_store && OF_INDEX.contains(&name.as_str())))
        .filter_map(|name| {
            let (was, is) = (
                count(golden, name).unwrap_or(0),
                count(now, name).unwrap_or(0),
            );
            let room = if NEARLY.contains(&name.as_str()) {
                FEW
            } else {
                0
            };
            (was.abs_diff(is) > room).then(|| format!("{name} {was} -> {is}"))
        })
        .collect()
}

fn shown(counts: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    words.join(", ")
}

#[test]
fn programs_cost_as_many_system_calls_as_they_did() {
    if !world().is_root() || !installed("strace") || world().only_native {
        return;
    }
    let (versions, write) = (versions(), std::env::var_os("CULVERT_GOLDEN").is_some());
    let golden_text = fs::read_to_string(golden()).unwrap_or_default();
    if !write && golden_text.lines().next() != Some(&versions) {
        not_tested("the counts of system calls were taken with other packages or another kernel");
        return;
    }
    let parsed = |counts: &str| -> BTreeMap<String, u64> {
        counts
            .split(", ")
            .filter_map(|word| word.split_once(' '))
            .map(|(name, n)| (name.to_owned(), n.parse().expect("a number")))
            .collect()
    };
    let expected: BTreeMap<&str, &str> = golden_text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .collect();
    let (mut found, mut wrong) = (format!("{versions}\n"), String::new());
    for line in PROGRAMS.lines().filter(|line| !line.starts_with('#')) {
        let (name, command) = line.split_once(": ").expect("a name and a command");
        let case = Case::new(&format!("counts-{name}"), User::Me).directory(Driver::Driven);
        if write {
            // The one that is found most often: what was disturbed costs more.
            let all: Vec<String> = (0..TRIES).map(|_| shown(&count(&case, command))).collect();
            let often = |one: &String| all.iter().filter(|other| *other == one).count();
            let counts = all.iter().max_by_key(|one| often(one)).expect("one");
            found += &format!("{name}: {counts}\n");
            continue;
        }
        let wanted = parsed(expected.get(name).unwrap_or(&""));
        let mut difference = differing(&wanted, &count(&case, command));
        for _ in 1..TRIES {
            if difference.is_empty() {
                break;
            }
            thread::sleep(SETTLED);
            difference = differing(&wanted, &count(&case, command));
        }
        if !difference.is_empty() {
            wrong += &format!("{name}: {}\n", difference.join(", "));
        }
    }
    if write {
        fs::write(golden(), found).expect("the sources can be written");
    }
    assert!(
        wrong.is_empty(),
        "{wrong}CULVERT_GOLDEN=write writes them down anew"
    );
}
