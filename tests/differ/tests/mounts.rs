//! The kept programs and a fixed number of random ones, on every kind of mount.

use culvert_differ::{
    Mount, Place, Program, World, built_culvert, difference, generate, generate_mapped, report,
    smaller, suited,
};
use std::fs;
use std::path::Path;

/// Random programs for each kind of mount, and their length.
const SEEDS: std::ops::Range<u64> = 1..41;
const STEPS: usize = 60;

/// Seeds whose programs show a difference that is known and not yet repaired: kind of mount, seed, what differs.
const KNOWN: &[(&str, u64, &str)] = &[
    (
        "driven",
        29,
        "the position of a directory as a spawned child sees it",
    ),
    ("memory", 9, "a socket gets a higher number than the lowest"),
    (
        "memory",
        29,
        "the position of a directory as a spawned child sees it",
    ),
];

/// The same for programs of [`generate_mapped`].
const KNOWN_MAPPED: &[(&str, u64, &str)] = &[];

/// None where the native side cannot be bound to the mount's path: neither root nor user namespaces.
fn world(mount: &Mount) -> Option<World> {
    let culvert = mount.is_culverts().then(built_culvert);
    let world = World::new(Place::Memory, culvert.as_deref()).unwrap_or_else(|error| {
        panic!("{error}; the command under test is {culvert:?}: `cargo build --release` makes it, CULVERT_BIN names another")
    });
    match world.can_bind() {
        Ok(()) => Some(world),
        Err(why) => {
            eprintln!("not tested: {why}");
            None
        }
    }
}

/// Every program in `kept`, with its file's name.
fn kept() -> Vec<(String, Program)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept");
    let mut all: Vec<_> = fs::read_dir(directory)
        .expect("the directory is part of the sources")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("it can be read");
            let program = text
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.display().to_string(), program)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Runs the program as whoever it is for, and fails with a short program and both outputs.
#[track_caller]
fn equal(world: &World, mount: &Mount, name: &str, program: &Program) {
    let program = &suited(program, mount);
    let Some(found) = difference(world, program, mount, None) else {
        return;
    };
    let short = smaller(world, program, mount, &found, None);
    let native = world.run(&short, &Mount::Native, None);
    let ours = world.run(&short, mount, None);
    panic!(
        "{name} on {mount:?}: {}\n\n{short}\n{}",
        found.signature(),
        report(&short, &native, &ours, mount)
    );
}

fn random_programs(kind: &str, generate: fn(u64, usize) -> Program, known: &[(&str, u64, &str)]) {
    let mount: Mount = kind.parse().expect("a mount");
    let Some(world) = world(&mount) else { return };
    for seed in SEEDS {
        if known.iter().any(|known| (known.0, known.1) == (kind, seed)) {
            continue;
        }
        equal(
            &world,
            &mount,
            &format!("seed {seed}"),
            &generate(seed, STEPS),
        );
    }
}

fn kept_programs(mount: &str) {
    let mount: Mount = mount.parse().expect("a mount");
    let Some(world) = world(&mount) else { return };
    for (name, program) in kept() {
        equal(&world, &mount, &name, &program);
        if world.is_root() && !program.nobody {
            let program = Program {
                nobody: true,
                ..program
            };
            equal(&world, &mount, &format!("{name} as nobody"), &program);
        }
    }
}

macro_rules! on_each_mount {
    ($($module:ident $mount:literal;)*) => { $(
        mod $module {
            #[test]
            fn kept_programs() { super::kept_programs($mount); }
            #[test]
            fn random_programs() { super::random_programs($mount, super::generate, super::KNOWN); }
            #[test]
            fn mapped_programs() { super::random_programs($mount, super::generate_mapped, super::KNOWN_MAPPED); }
        }
    )* };
}

on_each_mount! {
    native "native";
    passthrough "passthrough";
    bound "bound";
    driven "driven";
    memory "memory";
}

/// Natively nothing varies; so what differs on a mount is the mount's doing.
#[test]
fn a_planted_difference_is_found_and_shrunk() {
    let Some(world) = world(&Mount::Native) else {
        return;
    };
    let mut found = 0;
    for seed in 100..110 {
        let program = generate(seed, 20);
        for step in [3, 12, 25] {
            // Steps that show no result (a signal to nobody, an actor that is gone) cannot be falsified.
            let Some(difference) = difference(&world, &program, &Mount::Native, Some(step)) else {
                continue;
            };
            assert_eq!(
                difference.native.split(' ').next(),
                Some(step.to_string().as_str()),
                "the falsified step is the one that is named"
            );
            found += 1;
        }
    }
    assert!(
        found >= 24,
        "only {found} of 30 falsified results were found"
    );
    let program = generate(100, 20);
    let planted = difference(&world, &program, &Mount::Native, Some(3)).expect("a write");
    let short = smaller(&world, &program, &Mount::Native, &planted, Some(3));
    assert!(
        short.steps.len() <= 5,
        "{} steps are left:\n{short}",
        short.steps.len()
    );
}
