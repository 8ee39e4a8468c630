//! Layers over layers over drivers, with programs in them; names in whatever case; Android's
//! storage.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Finished, world};

/// Layers with their options; `@` stands for the test's directory.
const LAYERS: [&str; 12] = [
    "layer=avfs",
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

/// What is below, as `--mount` says it. `base.tar` holds a directory that programs do not use.
const BASES: [&str; 9] = [
    "type=bind,source=@/source,exclude=*.nobody-has-this",
    "type=passthrough,source=@/source",
    "type=passthrough,source=@/source,driven",
    "type=memory,source=memory",
    "type=union,source=@/source:@/other,minfreespace=0",
    "type=union,source=@/source:memory:,minfreespace=0,category.create=ff",
    "type=union,source=@/base.tar=RO:@/source,minfreespace=0",
    "type=union,source=@/base.tar=RO:memory:,minfreespace=0",
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

/// What is below, and the layers.
struct Stack {
    below: String,
    layers: String,
}

impl Stack {
    /// That of `seed`, of the bases that `suit`.
    fn random(seed: usize, place: &str, suit: fn(&str) -> bool) -> Self {
        let mut state = seed as u64 * 0x9e37_79b9 + 1;
        let mut random = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % bound
        };
        // As another user than root nobody may write where the owner is an app.
        let ours = |word: &&&str| world().is_root() || !word.contains("sdcard");
        let bases: Vec<_> = BASES
            .iter()
            .filter(ours)
            .filter(|base| suit(base))
            .collect();
        let all: Vec<_> = LAYERS.iter().filter(ours).collect();
        let base = bases[random(bases.len())];
        let layers: Vec<_> = (0..1 + random(4))
            .map(|_| *all[random(all.len())])
            .collect();
        let filled = |text: &str| text.replace('@', place.trim_end_matches('/'));
        Self {
            below: filled(base),
            layers: filled(&layers.join(",")),
        }
    }

    /// What the program is told: whether files are shown as programs that may be run.
    fn word(&self) -> &'static str {
        match self.below.contains("sdcard") || self.layers.contains("sdcard") {
            true => "plain",
            false => "exec",
        }
    }
}

/// A place for the stack of `seed`.
fn place(test: &str, seed: usize) -> Mounted {
    let place = Mounted::place(&format!("{test}-{seed}"));
    let directory = place.text("");
    let made = shell(&format!(
        "cd {directory} && mkdir -p other tree/archived && tar cf base.tar -C tree archived"
    ));
    assert_eq!(made.status, "exit 0", "{}", made.report());
    place
}

/// What the program says on a directory of the kernel's.
fn natively(test: &str) -> String {
    let program = world().program("stacked").display().to_string();
    let mut all = ["exec", "plain"].map(|word| {
        let place = Mounted::place(&format!("{test}-native-{word}"));
        let done = shell(&format!("{program} {} {word}", place.text("source")));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        assert!(done.text().contains("sees aaaaa far."), "{}", done.report());
        done.text()
    });
    assert_eq!(all[0], all[1]);
    std::mem::take(&mut all[0])
}

/// Two processes, fork, exec with an open file and of a program there, mappings, copies, renames:
/// as natively.
#[test]
fn programs_do_on_random_stacks_what_they_do_natively() {
    let (program, want) = (world().program("stacked"), natively("stacks-run"));
    for seed in seeds(200) {
        let place = place("stacks-run", seed);
        let stack = Stack::random(seed, &place.text(""), |_| true);
        let (target, Stack { below, layers }) = (place.text("target"), &stack);
        let mount = format!("{below},target={target},{layers}");
        let program = program.to_str().expect("plain");
        let run = [
            "run",
            "--mount",
            &mount,
            "--",
            program,
            &target,
            stack.word(),
        ];
        let done = culvert(&run);
        assert_eq!(done.text(), want, "seed {seed}: {mount}\n{}", done.report());
        assert_eq!(done.status, "exit 0", "seed {seed}: {}", done.report());
    }
}

/// The same on the kernel's mounts, of every base but directories beside memory.
#[test]
fn programs_do_on_kernel_mounts_of_random_stacks_what_they_do_natively() {
    if !possible() {
        return;
    }
    let (program, want) = (world().program("stacked"), natively("stacks-mount"));
    for seed in seeds(36) {
        let place = place("stacks-mount", seed);
        let suits = |base: &str| !base.contains("source:memory:");
        let stack = Stack::random(seed, &place.text(""), suits);
        let target = place.text("target");
        let mut words: Vec<_> = stack.below.split(',').collect();
        let value = |word: &str, name: &str| word.strip_prefix(name).map(str::to_owned);
        let kind = value(words.remove(0), "type=").expect("the first word");
        let source = value(words.remove(0), "source=").expect("the second word");
        words.push(&stack.layers);
        let options = words.join(",");
        let up = culvert(&["mount", "-t", &kind, "-o", &options, &source, &target]);
        let said = format!("seed {seed}: {kind} of {source}, {options}");
        assert_eq!(up.status, "exit 0", "{said}: {}", up.report());
        let done = shell(&format!("{} {target} {}", program.display(), stack.word()));
        assert_eq!(done.text(), want, "{said}\n{}", done.report());
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
