//! Layers over layers over drivers, with programs in them; names in whatever case; Android's
//! storage.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Finished, world};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/stacked.py");

/// Layers with their options; `@` stands for the test's directory.
const LAYERS: [&str; 11] = [
    "layer=bind",
    "layer=bind,bind.exclude=*.nobody-has-this",
    "layer=bind,bind.path=/nowhere,bind.chmod-deny",
    "layer=trace,trace.to=@/trace",
    "layer=casefold",
    "layer=casefold,casefold.strict",
    "layer=fault",
    "layer=fault,fault.rule=any+after=1000000000+errno=EIO",
    "layer=log,log.file=@/log",
    "layer=log,log.file=@/log,log.data=no",
    "layer=sdcard,sdcard.view=write,sdcard.fullwrite",
];

/// What is below, as `--mount` says it.
const BASES: [&str; 7] = [
    "type=bind,source=@/source,exclude=*.nobody-has-this",
    "type=passthrough,source=@/source",
    "type=passthrough,source=@/source,driven",
    "type=memory",
    "type=union,source=@/source:@/other,minfreespace=0",
    "type=union,source=@/source:memory:,minfreespace=0,category.create=ff",
    "type=sdcard,source=@/source,view=write,fullwrite",
];

/// The first stacks, so many; with `CULVERT_STACKS=FIRST-LAST` those.
fn seeds(usual: usize) -> std::ops::RangeInclusive<usize> {
    let Ok(text) = std::env::var("CULVERT_STACKS") else {
        return 1..=usual;
    };
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    first.parse().expect("a number")..=last.parse().expect("a number")
}

/// The stack of `seed`: what is below, and the layers.
fn stack(seed: usize, place: &str) -> (String, String) {
    let mut state = seed as u64 * 0x9e37_79b9 + 1;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % bound
    };
    // As another user than root nobody may write where the owner is an app.
    let ours = |word: &&&str| world().is_root() || !word.contains("sdcard");
    let bases: Vec<_> = BASES.iter().filter(ours).collect();
    let all: Vec<_> = LAYERS.iter().filter(ours).collect();
    let base = bases[random(bases.len())];
    let layers: Vec<_> = (0..1 + random(4))
        .map(|_| *all[random(all.len())])
        .collect();
    let filled = |text: &str| text.replace('@', place.trim_end_matches('/'));
    (filled(base), filled(&layers.join(",")))
}

fn natively(place: &Mounted) -> String {
    let native = place.text("native");
    let done = shell(&format!(
        "rm -rf {native}; mkdir {native}; python3 {PROGRAM} {native}"
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    done.text().to_owned()
}

/// Two processes, fork, exec with an open file, mappings, copies, renames: as natively.
#[test]
fn programs_do_on_random_stacks_what_they_do_natively() {
    for seed in seeds(16) {
        let place = Mounted::place(&format!("stacks-run-{seed}"));
        let (below, layers) = stack(seed, &place.text(""));
        let (target, other) = (place.text("target"), place.text("other"));
        std::fs::create_dir_all(other).expect("ours");
        let mount = format!("{below},target={target},{layers}");
        println!("seed {seed}: {mount}");
        let done = culvert(&["run", "--mount", &mount, "--", "python3", PROGRAM, &target]);
        assert_eq!(
            done.text(),
            natively(&place),
            "seed {seed}: {mount}\n{}",
            done.report()
        );
        assert_eq!(done.status, "exit 0", "seed {seed}: {}", done.report());
    }
}

#[test]
fn programs_do_on_kernel_mounts_of_random_stacks_what_they_do_natively() {
    if !possible() {
        return;
    }
    for seed in seeds(8) {
        let place = Mounted::place(&format!("stacks-mount-{seed}"));
        let base = place.text("");
        let layers = stack(seed, &base).1;
        println!("seed {seed}: {layers}");
        let (source, target) = (place.text("source"), place.text("target"));
        let up = culvert(&[
            "mount",
            "-t",
            "passthrough",
            "-o",
            &layers,
            &source,
            &target,
        ]);
        assert_eq!(up.status, "exit 0", "seed {seed}: {}", up.report());
        let done = shell(&format!("python3 {PROGRAM} {target}"));
        assert_eq!(
            done.text(),
            natively(&place),
            "seed {seed}: {layers}\n{}",
            done.report()
        );
    }
}

/// `renamed`: what `ReadMe` is called after a rename to `README`.
fn in_any_case(done: &Finished, renamed: &str) {
    let want = format!("one\nReadMe Sub \nread\nsame\nrefused\nmoved\n{renamed} Sub \ngone\n");
    assert_eq!(done.text(), want, "{}", done.report());
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

#[test]
fn names_are_found_in_any_case() {
    let place = Mounted::place("casefold-run");
    let (source, target) = (place.text("source"), place.text("target"));
    let script = script!("stacks/names_are_found_in_any_case.sh", target);
    for below in [
        "type=memory".to_owned(),
        format!("type=passthrough,source={source}"),
    ] {
        let mount = format!("{below},target={target},layer=casefold");
        let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
        in_any_case(&done, "README");
    }
}

#[test]
fn names_are_found_in_any_case_on_kernel_mounts() {
    if !possible() {
        return;
    }
    for source in ["source", "memory"] {
        let name = format!("casefold-mount-{source}");
        let place = Mounted::place(&name);
        let (kind, from) = match source {
            "memory" => ("memory", source.to_owned()),
            _ => ("passthrough", place.text(source)),
        };
        let mount = Mounted::of(&name, &["-t", kind, "-o", "layer=casefold"], &from);
        let target = mount.text("target");
        let script = script!("stacks/names_are_found_in_any_case.sh", target);
        // To the kernel both are one file, whose names a rename leaves as they are.
        in_any_case(&shell(&script), "ReadMe");
    }
}

/// Apps, each a user: what its view lets each do; in turn and after each other.
#[test]
fn apps_see_android_storage_by_their_view() {
    if !possible() {
        return;
    }
    let mount = Mounted::place("sdcard-views");
    let (place, culvert) = (mount.text(""), world().culvert.display());
    let done = shell(&script!(
        "stacks/apps_see_android_storage_by_their_view.sh",
        place,
        culvert
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "as Android\n", "{}", done.report());
}

/// Storage of several users: one directory `obb`, and groups in the source.
#[test]
fn one_obb_is_of_all_users() {
    if !possible() {
        return;
    }
    let mount = Mounted::place("sdcard-obb");
    let (place, culvert) = (mount.text(""), world().culvert.display());
    let done = shell(&script!(
        "stacks/one_obb_is_of_all_users.sh",
        place,
        culvert
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "as Android\n", "{}", done.report());
}

/// The same directory in a run: what one process finds by one user's path another finds by the
/// other's.
#[test]
fn one_obb_is_of_all_users_in_a_run() {
    if !world().is_root() {
        return;
    }
    let place = Mounted::place("sdcard-obb-run");
    let (source, target) = (place.text("source"), place.text("target"));
    let list = "packages=/nowhere/list";
    let mount = format!("type=sdcard,source={source},target={target},multiuser,view=write,{list}");
    let script = script!("stacks/one_obb_in_a_run.sh", target, source);
    let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "as Android\n", "{}", done.report());
}

/// The same in a run, whose programs have the rights of their user in the source, and no more.
#[test]
fn android_storage_is_shown_in_a_run() {
    if !world().is_root() {
        return;
    }
    let place = Mounted::place("sdcard-run");
    let (source, target) = (place.text("source"), place.text("target"));
    let mount =
        format!("type=sdcard,source={source},target={target},view=read,packages={source}/list");
    let script = script!(
        "stacks/android_storage_is_shown_in_a_run.sh",
        target,
        source
    );
    let done = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "as Android\n", "{}", done.report());
}
