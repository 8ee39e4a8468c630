//! The kept programs and a fixed number of random ones, on every kind of mount.

use culvert_differ::{
    Mount, Place, Program, World, built_culvert, difference, generate, generate_mapped, report,
    smaller, suited, suited_to_disk,
};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Random programs, the same for each kind of mount, and their length.
const SEEDS: Range<u64> = 1..41;
const STEPS: usize = 60;
/// The end of the seeds for layers.
const FEW: u64 = 13;

/// Says that something is not tested here, and why; `scripts/test` names it at its end.
fn not_tested(why: &str) {
    eprintln!("not tested: {why}");
    if let Some(list) = std::env::var_os("CULVERT_NOT_TESTED") {
        let list = fs::File::options().append(true).create(true).open(list);
        list.and_then(|mut list| list.write_all(format!("{why}\n").as_bytes()))
            .expect("CULVERT_NOT_TESTED names a file that can be written");
    }
}

/// None where the native side cannot be bound to the mount's path: neither root nor user
/// namespaces.
fn world(mount: &Mount) -> Option<World> {
    world_at(mount, Place::Memory)
}

fn world_at(mount: &Mount, place: Place) -> Option<World> {
    let culvert = mount.is_culverts().then(built_culvert);
    let world = World::new(place, culvert.as_deref()).unwrap_or_else(|error| {
        panic!(
            "{error}; the command under test is {culvert:?}: `cargo build --release` makes it, \
            CULVERT_BIN names another"
        )
    });
    let possible = world.can_bind().and_then(|()| world.can_mount(mount));
    match possible.and_then(|()| world.can_mount(&mount.reference())) {
        Ok(()) => Some(world),
        Err(why) => {
            not_tested(&why);
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
    let native = world.run(&short, &mount.reference(), None);
    let ours = world.run(&short, mount, None);
    panic!(
        "{name} on {mount:?}: {}\n\n{short}\n{}",
        found.signature(),
        report(&short, &native, &ours, mount)
    );
}

/// Random programs, in memory.
fn random_programs(kind: &str, mapped: bool) {
    programs(kind, mapped, SEEDS);
}

/// A part of them.
fn few_programs(kind: &str, mapped: bool) {
    programs(kind, mapped, 1..FEW);
}

fn programs(kind: &str, mapped: bool, seeds: impl Iterator<Item = u64>) {
    let generate = if mapped { generate_mapped } else { generate };
    let mount: Mount = kind.parse().expect("a mount");
    let Some(world) = world(&mount) else { return };
    for seed in seeds {
        equal(
            &world,
            &mount,
            &format!("seed {seed}"),
            &generate(seed, STEPS),
        );
    }
}

/// Random programs, on a disk.
fn on_disk(kind: &str, mapped: bool) {
    let generate = if mapped { generate_mapped } else { generate };
    let mount: Mount = kind.parse().expect("a mount");
    let candidates = [
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        PathBuf::from("/var/tmp"),
        std::env::temp_dir(),
    ];
    let Some(place) = Place::on_disk(&candidates) else {
        not_tested(&format!(
            "none of {candidates:?} is on a disk and open to everybody"
        ));
        return;
    };
    if let Some(world) = world_at(&mount, place) {
        for seed in SEEDS {
            let program = suited_to_disk(&generate(seed, STEPS));
            equal(&world, &mount, &format!("seed {seed}"), &program);
        }
    }
}

/// All but those of the files `left_out`.
fn kept_programs(mount: &str, left_out: &[&str]) {
    let mount: Mount = mount.parse().expect("a mount");
    let Some(world) = world(&mount) else { return };
    let is_left_out = |name: &str| left_out.iter().any(|file| name.ends_with(file));
    for (name, program) in kept() {
        if is_left_out(&name) {
            continue;
        }
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

/// Seeds of which a server's files in a run are not what they are behind the kernel, and why.
const OTHERWISE: [(u64, &str); 5] = [
    (8, OPENED_ANEW),
    (27, IN_A_MESSAGE),
    (29, OPENED_ANEW),
    (100, IN_A_MESSAGE),
    (
        152,
        "the kernel's mount is root's, and so is its server; in a run it is the user's own, and \
        reaches no name below a directory that its user may not enter any more: EACCES for an \
        attribute of an open file there, as behind the kernel from a server of that user",
    ),
];

/// Why a file is not mapped.
const OPENED_ANEW: &str = "a file is mapped by another program than has opened it, for which it \
    is opened anew, by its name: below a directory that its user may not enter any more";

/// Why a removed file is not kept.
const IN_A_MESSAGE: &str = "the kernel keeps a removed file open at the server, under a name of \
    its own, for a message that nobody receives; here it is Culvert's own copy by then";

/// bindfs in a run, beside bindfs behind the kernel.
mod server {
    use super::*;

    #[test]
    fn random_programs() {
        let mount: Mount = "server".parse().expect("a mount");
        let Some(world) = world(&mount) else { return };
        for seed in SEEDS.filter(|seed| OTHERWISE.iter().all(|(other, _)| other != seed)) {
            let program = generate(seed, STEPS);
            equal(&world, &mount, &format!("seed {seed}"), &program);
        }
    }
}

/// Containers, on one back end and on three.
mod plfs {
    use super::*;

    fn programs(kind: &str) {
        super::programs(kind, false, SEEDS);
    }

    #[test]
    fn random_programs() {
        programs("plfs");
    }

    #[test]
    fn random_programs_on_three() {
        programs("plfs-spread");
    }

    #[test]
    fn kept_programs() {
        super::kept_programs("plfs", &[]);
    }

    #[test]
    fn kept_programs_on_three() {
        super::kept_programs("plfs-spread", &[]);
    }

    /// Programs that are for these mounts alone.
    #[track_caller]
    fn equal(program: &str) {
        let mount = "plfs".parse().expect("a mount");
        let Some(world) = world(&mount) else { return };
        let program = program.parse().expect("a program");
        super::equal(&world, &mount, "program", &program);
    }

    #[test]
    fn what_was_a_directory_is_no_file_after_exec() {
        equal(
            "0 mkdir e 0755
            0 chdir e
            0 rmdir {m}/e
            0 openat e cwd . O_RDONLY 0
            0 exec plain
            0 unlink /proc/self/fd/{fd:e}/f
            0 spawn none lseek e 0 SEEK_CUR",
        );
    }

    #[test]
    fn what_another_process_removed_has_a_text_in_proc() {
        equal(
            "0 mkdir d 0755
            0 openat b cwd d/g O_RDWR|O_CREAT 0600
            0 exec script
            0 shell rm -rf d
            0 realpath /proc/self/fd/{fd:b}/",
        );
    }

    #[test]
    fn what_is_not_known_after_exec_is_an_error_of_all_requests() {
        for request in [
            "clone a d",
            "clone d a",
            "fionread a",
            "lseek a 0 SEEK_DATA",
        ] {
            equal(&format!(
                "#! user nobody
                0 openat a cwd f O_RDWR|O_CREAT 0644
                0 mkdir e 0755
                0 openat d cwd e O_RDONLY|O_DIRECTORY 0
                0 fchmod a 0111
                0 exec plain
                0 {request}"
            ));
        }
    }

    #[test]
    fn a_file_without_a_name_stays_locked_over_exec() {
        equal(
            "0 openat a cwd f O_RDWR|O_CREAT 0644
            0 dup e a
            0 unlink f
            0 lock a F_SETLK F_WRLCK 0 0
            0 exec script
            0 lock e F_OFD_SETLK F_WRLCK 0 0",
        );
    }
}

macro_rules! on_each_mount {
    ($($module:ident $mount:literal;)*) => { $(
        mod $module {
            #[test]
            fn kept_programs() { super::kept_programs($mount, &[]); }
            #[test]
            fn random_programs() { super::random_programs($mount, false); }
        }
    )* };
}

/// Programs that map files.
macro_rules! mapped_on_each_mount {
    ($($name:ident $mount:literal;)*) => {
        mod mapped {
            use super::*;
            $(
                #[test]
                fn $name() { random_programs($mount, true); }
            )*
        }
    };
}

on_each_mount! {
    native "native";
    passthrough "passthrough";
    bound "bound";
    driven "driven";
    memory "memory";
    kernel "kernel";
    kernel_memory "kernel-memory";
    layered "layered";
    fault "fault";
}

mapped_on_each_mount! {
    native "native";
    passthrough "passthrough";
    bound "bound";
    driven "driven";
    memory "memory";
    kernel "kernel";
    kernel_memory "kernel-memory";
    layered "layered";
    paged "paged";
    fault "fault";
    stacked "stacked";
    plfs "plfs";
    plfs_spread "plfs-spread";
}

/// Layers, and drivers over directories: fewer programs, of both kinds.
macro_rules! few_on_each_mount {
    ($($module:ident $mount:literal;)*) => { $(
        mod $module {
            #[test]
            fn random_programs() { super::few_programs($mount, false); }
            #[test]
            fn mapped() { super::few_programs($mount, true); }
        }
    )* };
}

few_on_each_mount! {
    log "log";
    bind "bind";
    bind_rules "bind-rules";
    bind_rates "bind-rates";
    union "union";
    union_spread "union-spread";
    archives "archives";
    kernel_bind_mapped "kernel-bind-mapped";
    kernel_log "kernel-log";
    kernel_union "kernel-union";
}

/// Of files in memory below layers the layer's front end maps copies.
#[test]
fn removed_while_mapped_above_memory() {
    let text = include_str!("../kept/removed-while-mapped-and-shared.txt");
    let program = text.parse().expect("it can be read");
    for mount in ["archives", "type=union,source=memory:,target={mnt}"] {
        let mount: Mount = mount.parse().expect("a mount");
        let Some(world) = world(&mount) else { return };
        equal(&world, &mount, "removed-while-mapped-and-shared", &program);
    }
}

/// Beside itself behind the kernel, which refuses links in another order: programs that mostly map.
mod sdcard {
    #[test]
    fn mapped() {
        super::few_programs("sdcard", true);
    }
}

/// Ours beside bindfs and mergerfs behind the kernel, by the same options: one program for each.
mod beside {
    use super::*;

    /// On a kernel mount of ours and in a run in turn, where an option is for both: it is to be
    /// over in half a minute.
    fn each(original: &str, first: u64, all: &[(&str, &str)]) {
        let mount = |way: &str, options: &str| -> Mount {
            let kind = format!("{original}{way}:{options}");
            kind.parse().expect("a mount")
        };
        let Some(world) = world(&mount("", "")) else {
            return;
        };
        for (seed, (ways, options)) in (first..).zip(all) {
            let program = generate(seed, STEPS);
            let ways: Vec<_> = ways.split(' ').collect();
            let mount = mount(ways[seed as usize % ways.len()], options);
            equal(&world, &mount, &format!("seed {seed}"), &program);
        }
    }

    #[test]
    fn bindfs() {
        each("bindfs", 1, &BINDFS);
    }

    #[test]
    fn mergerfs() {
        each("mergerfs", 101, &MERGERFS);
    }

    const BINDFS: [(&str, &str); 25] = [
        (" -run", ""),
        (" -run", "force-user=65534,force-group=65534"),
        (" -run", "perms=a-w"),
        (" -run", "perms=u=rwX:g=rD:o="),
        (" -run", "mirror=65534:1"),
        (" -run", "mirror-only=65534"),
        ("", "map=0/65534:@0/@65534"),
        (" -run", "create-as-user"),
        ("", "create-as-mounter"),
        ("", "create-for-user=1,create-for-group=1"),
        (" -run", "create-with-perms=0640:ud+x"),
        (" -run", "chown-ignore,chgrp-ignore"),
        (" -run", "chown-deny,chgrp-deny"),
        (" -run", "chmod-ignore"),
        (" -run", "chmod-deny,chmod-allow-x"),
        (" -run", "chmod-filter=g-w:o-rwx"),
        (" -run", "xattr-none"),
        (" -run", "xattr-ro"),
        (" -run", "xattr-rw"),
        (" -run", "delete-deny"),
        (" -run", "rename-deny"),
        (" -run", "hide-hard-links"),
        (" -run", "ctime-from-mtime"),
        (" -run", "realistic-permissions"),
        (" -run", "multithreaded"),
    ];

    const MERGERFS: [(&str, &str); 20] = [
        (" -run", "category.create=ff"),
        (" -run", "category.create=mfs"),
        (" -run", "category.create=lfs"),
        (" -run", "category.create=lus"),
        (" -run", "category.create=epff"),
        (" -run", "category.create=epmfs"),
        (" -run", "category.create=eplfs"),
        (" -run", "category.create=eplus"),
        (" -run", "category.create=msplfs"),
        (" -run", "category.create=mspmfs"),
        (" -run", "category.create=msplus"),
        (" -run", "category.create=ff,category.action=epff"),
        (" -run", "category.create=ff,category.action=epmfs"),
        (" -run", "category.create=ff,category.search=newest"),
        (
            " -run",
            "category.create=ff,func.mkdir=epff,func.mknod=epmfs,func.symlink=eplfs",
        ),
        (" -run", "category.create=ff,link_cow=true"),
        (" -run", "category.create=epff,link-exdev=rel-symlink"),
        (" -run", "category.create=ff,minfreespace=29M"),
        (" -run", "category.create=ff,inodecalc=devino-hash"),
        (" -run", "category.create=ff,statfs=full"),
    ];
}

mod disk {
    use super::*;
    #[test]
    fn passthrough() {
        on_disk("passthrough", false);
    }
    #[test]
    fn driven() {
        on_disk("driven", false);
    }
    #[test]
    fn driven_mapped() {
        on_disk("driven", true);
    }
    #[test]
    fn kernel() {
        on_disk("kernel", false);
    }
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
            // Steps that show no result (a signal to nobody, an actor that is gone) cannot be
            // falsified.
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
