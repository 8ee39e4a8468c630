//! Random stacks of all layers over all drivers: each keeps the contract, in two processes.
//!
//! `CULVERT_STACKS=FIRST-LAST` runs other seeds than the usual ones.

mod generate;
mod processes;

use culvert::testing::writing;
use generate::{Random, Stack};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The seeds of the usual run.
const SEEDS: Range<u64> = 1..201;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("CULVERT_STACKS") else {
        return SEEDS;
    };
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
}

/// Of which stacks something is true.
type Which = fn(&Stack) -> bool;

/// Rules that some stacks break, and why.
const BROKEN: &[(Which, &[&str], &str)] = &[
    (
        Stack::derives,
        &[
            "attributes-agree",
            "chmod",
            "chown",
            "create",
            "create-existing",
            "mkdir",
            "mknod",
            "ownership",
            "privileges-dropped",
        ],
        "under sdcard owners and modes are not what was asked for",
    ),
    (
        Stack::derives_on_a_branch,
        &["links", "rename-flags", "tmpfile", "xattrs"],
        "a union says that it has what some branch has",
    ),
    (
        Stack::is_strict,
        &["create", "absent-names"],
        "of the kit's names some are no UTF-8: EINVAL",
    ),
    (
        Stack::mixes,
        &["ownership", "privileges-dropped"],
        "files on directories are whose the process is; the kit's caller is only said to be \
        another",
    ),
];

fn may_break(stack: &Stack, rule: &str) -> bool {
    let mut all = BROKEN.iter();
    all.any(|(which, rules, _)| which(stack) && rules.contains(&rule))
}

/// The seeds, in turn on as many threads as there are processors; fails with all that failed.
fn each(work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds().start);
    let failed = Mutex::new(Vec::new());
    let turns = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if !seeds().contains(&seed) {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| work(seed))).is_err() {
                failed.lock().unwrap().push(seed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(turns);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn changes_are_as_the_contract_says() {
    if processes::worker() {
        return;
    }
    each(|seed| {
        let stack = Stack::random(&mut Random::new(seed), true);
        println!("seed {seed}: {stack}");
        if !stack.suits_this_user() {
            return;
        }
        let made = Mutex::new(Vec::new());
        let report = writing(&|| {
            let place = stack.place();
            let fs = place.open();
            made.lock().unwrap().push(place);
            fs
        });
        let failures = report.failures.iter();
        let broken: Vec<_> = failures
            .filter(|one| !may_break(&stack, one.rule))
            .collect();
        assert!(broken.is_empty(), "seed {seed}: {stack}: {broken:#?}");
    });
}

#[test]
fn two_processes_see_one_file_system() {
    if processes::worker() {
        return;
    }
    each(|seed| {
        let stack = Stack::random(&mut Random::new(seed), seed % 4 != 0);
        if stack.suits_this_user() {
            processes::check(seed, &stack);
        }
    });
}

/// A layer that is not said here is in no stack.
#[test]
fn all_layers_are_in_stacks() {
    for layer in culvert_drivers::layers::list() {
        let known = generate::LAYERS.iter().any(|(name, _)| *name == layer.name);
        assert!(known, "say in generate.rs how {} stacks", layer.name);
    }
}
