//! Files that are filled on demand, when something goes wrong: what the driver cannot read, a file
//! that becomes shorter, other processes, and kill -9 of a writer and of the pager. What an
//! ordinary user maps is filled before.

use culvert_e2e::{Case, Driver, Finished, User, open_to_all, run_within, world};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::Duration;

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;
/// Where the first byte is that a layer does not read.
const BAD: u64 = SIZE / 2;
/// A layer through which reading takes so long that a pager can be killed at it.
const SLOW: &str = "layer=fault,fault.rule=read+delay=1ms";

/// A case with a directory, and the program. None: not tested here.
fn case(name: &str, driver: Driver, user: User) -> Option<(Case, String)> {
    if user == User::Nobody && !world().is_root() {
        return None;
    }
    let name = format!("mapped-lazily-{name}-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_lazily");
    Some((case, program))
}

fn agrees(what: &str, driver: Driver, user: User) {
    if let Some((case, program)) = case(what, driver, user) {
        case.good(&format!("umask 022; {program} {what} $M/file"));
    }
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_mapped() {
    agrees("truncated", Driver::NoDescriptor, User::Me);
}

#[test]
fn a_file_that_becomes_shorter_below_a_layer() {
    agrees("truncated", Driver::Layered, User::Me);
}

#[test]
fn a_file_that_becomes_shorter_of_an_ordinary_user() {
    agrees("truncated", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn two_processes_fill_one_file() {
    agrees("two", Driver::NoDescriptor, User::Me);
}

#[test]
fn two_processes_of_an_ordinary_user() {
    agrees("two", Driver::NoDescriptor, User::Nobody);
}

#[test]
fn a_shared_offset_is_read_where_pages_are_missing() {
    agrees("shared", Driver::NoDescriptor, User::Me);
}

#[test]
fn a_shared_offset_below_a_layer_of_an_ordinary_user() {
    agrees("shared", Driver::Layered, User::Nobody);
}

/// What a program sees of a file in whose second half reading ends with `effect`, and the log.
fn unreadable(user: User, effect: &str) -> Option<(String, String)> {
    if world().only_native {
        return None;
    }
    let name = format!("unreadable-{effect}");
    let (case, program) = case(&name, Driver::NoDescriptor, user)?;
    let rules = format!("layer=fault,fault.rule=read+offset={BAD}+{effect}");
    let script = script!(
        "mapped_lazily/unreadable.sh",
        program,
        size = SIZE,
        bad = BAD
    );
    // The log lies in the working directory, which is made anew for the run.
    let script = format!("export CULVERT_LOG=$W/log; exec bash -c '{script}'");
    let done = case
        .options(rules)
        .through_culvert(&["bash", "-c", &script]);
    Some((done.text(), done.errors()))
}

/// Whether a full userfaultfd is to be had here by whoever runs the tests.
fn on_demand() -> bool {
    world().is_root()
}

#[test]
fn what_cannot_be_read_is_a_signal_with_a_reason() {
    let Some((seen, log)) = unreadable(User::Me, "errno=EIO").filter(|_| on_demand()) else {
        return;
    };
    let want = signals_behind_the_first_half();
    assert_eq!(seen, want, "{log}");
    let reasons = log
        .lines()
        .filter(|line| line.contains("cannot be read, SIGBUS: EIO by rule 1 of layer fault"));
    assert_eq!(reasons.count(), 3, "{log}");
}

/// The process that dies of it is the pager's, not the program.
#[test]
fn what_the_driver_crashes_at_is_a_signal_with_a_reason() {
    for effect in ["action=crash", "action=panic"] {
        let Some((seen, log)) = unreadable(User::Me, effect).filter(|_| on_demand()) else {
            return;
        };
        assert_eq!(seen, signals_behind_the_first_half(), "{effect}: {log}");
        assert!(
            log.contains("the pager died at a page, which is SIGBUS now"),
            "{effect}: {log}"
        );
    }
}

/// What is filled before it is mapped is read by the program itself.
#[test]
fn what_the_driver_crashes_at_ends_an_ordinary_users_program() {
    for (effect, end) in [("action=crash", 139), ("action=panic", 134)] {
        if let Some((seen, log)) = unreadable(User::Nobody, effect) {
            assert_eq!(seen, format!("end {end}\n"), "{effect}: {log}");
        }
    }
}

/// What the program says.
fn signals_behind_the_first_half() -> String {
    let behind = BAD + 3 * PAGE;
    format!(
        "before, byte {before}: {before}\nbehind, byte {behind}: BUS\nonce more, byte {behind}: \
        BUS\nthe first, byte 0: 0\n\
         the kernel: EFAULT\nthe kernel, before: reads it\na child, byte {BAD}: BUS\nchild: \
         0\nmunmap: 0\nend 0\n",
        before = BAD - PAGE
    )
}

/// `programs/mapped_full.c` where the run directory has room for two thirds of the file, at most:
/// what it says, and the log.
fn without_room(user: User) -> Option<(String, String)> {
    let world = world();
    // A file system of that size is mounted.
    if world.only_native || !world.is_root() {
        return None;
    }
    let place = world.path(&format!("mapped-full-{user:?}"));
    let (source, target, log) = (
        place.join("source"),
        place.join("target"),
        place.join("log"),
    );
    for made in [&place, &source, &target] {
        fs::create_dir_all(made).expect("the base directory is ours");
        open_to_all(made);
    }
    if user == User::Nobody {
        chown(&source, Some(65534), Some(65534)).expect("we are root");
    }
    fs::write(&log, "").expect("the base directory is ours");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let as_user = match user {
        User::Nobody => "setpriv --reuid=65534 --regid=65534 --clear-groups",
        User::Me => "",
    };
    let script = script!(
        "mapped_lazily/without_room.sh",
        log = log.display(),
        as_user,
        culvert = world.culvert.display(),
        source = source.display(),
        target = target.display(),
        mapped_full = world.program("mapped_full").display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    let done = run_within(command, b"", Duration::from_secs(200));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let log = fs::read_to_string(log).unwrap_or_default();
    fs::remove_dir_all(&place).expect("what the trial left can be removed");
    Some((done.text(), log))
}

#[test]
fn a_page_for_which_there_is_no_room_is_a_signal_with_a_reason() {
    let Some((seen, log)) = without_room(User::Me).filter(|_| on_demand()) else {
        return;
    };
    let rest = "munmap: 0\nall stores, 0 wrong in the file\n";
    let signals = format!("many right, 0 wrong, signals\n{rest}");
    let none = format!("many right, 0 wrong, no signals\n{rest}");
    let reason = "cannot be read, SIGBUS: No space left on device";
    assert!(
        seen == none || seen == signals && log.contains(reason),
        "{seen}{log}"
    );
}

#[test]
fn a_mapping_for_which_there_is_no_room_is_refused_with_a_reason() {
    let Some((seen, log)) = without_room(User::Nobody) else {
        return;
    };
    assert!(seen.starts_with("mmap: ENOMEM\n"), "{seen}{log}");
    assert!(log.contains("find no room in the run directory"), "{log}");
}

#[test]
fn what_cannot_be_read_is_no_mapping_of_an_ordinary_user() {
    let Some((seen, log)) = unreadable(User::Nobody, "errno=EIO") else {
        return;
    };
    assert_eq!(seen, "mmap: EIO\nend 0\n", "{log}");
    assert!(log.contains("EIO by rule 1 of layer fault"), "{log}");
}

#[test]
fn what_the_last_process_of_a_run_had_stored_when_it_was_killed() {
    if world().only_native {
        return;
    }
    let Some((case, program)) = case("last", Driver::NoDescriptor, User::Me) else {
        return;
    };
    let script = format!("{program} make $M/file {SIZE} && exec {program} last $M/file {SIZE}");
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.status, "signal 9", "{}", done.report());
    // Held by the pager until it has ended. No file any more: somebody else has found the run over,
    // and removed it.
    let mut wait = Command::new("flock");
    wait.arg(format!("{}/lock", done.text().trim())).arg("true");
    let waited = run_within(wait, b"", Duration::from_secs(30));
    assert!(!waited.status.starts_with("killed"), "{}", waited.report());
    let file = case.behind().expect("a directory").join("file");
    let bytes = fs::read(file).expect("the file is there");
    for at in (0..SIZE).step_by(8) {
        let word = bytes[at as usize..][..8].try_into().expect("8 bytes");
        let page = at & !(PAGE - 1);
        let stored = at % PAGE == 16 && page.is_multiple_of(5 * PAGE);
        let want = if stored { !page } else { at };
        assert_eq!(u64::from_le_bytes(word), want, "byte {at}");
    }
}

/// Threads read a file through a mapping while `kills` workers of the pager are killed, and then
/// perhaps its guardian.
fn killed(kills: u32, guardian: u32) -> Option<Finished> {
    if world().only_native || !on_demand() {
        return None;
    }
    let (case, program) = case(
        &format!("killed-{guardian}"),
        Driver::NoDescriptor,
        User::Me,
    )?;
    let script =
        format!("{program} make $M/file 25165824 && {program} killed $M/file {kills} {guardian}");
    Some(case.options(SLOW).through_culvert(&["bash", "-c", &script]))
}

#[test]
fn a_pager_whose_workers_are_killed_goes_on() {
    if let Some(done) = killed(20, 0) {
        assert_eq!(done.text(), "0 wrong\n", "{}", done.report());
        assert!(
            done.errors().contains("guardian found"),
            "{}",
            done.report()
        );
    }
}

#[test]
fn a_pager_whose_guardian_is_killed_fills_what_is_left() {
    if let Some(done) = killed(3, 1) {
        assert_eq!(done.text(), "0 wrong\n", "{}", done.report());
        assert!(
            done.errors().contains("guardian found"),
            "{}",
            done.report()
        );
    }
}

/// Also where the file itself has holes: nobody is left to wait for.
#[test]
fn a_pager_whose_guardian_is_killed_fills_holes() {
    if world().only_native || !on_demand() {
        return;
    }
    let Some((case, program)) = case("sparse", Driver::NoDescriptor, User::Me) else {
        return;
    };
    let done = case.through_culvert(&["bash", "-c", &format!("{program} sparse $M/file")]);
    assert_eq!(done.text(), "0 wrong\n", "{}", done.report());
    assert!(
        done.errors().contains("guardian found"),
        "{}",
        done.report()
    );
}

/// Nobody is left who would know: the program's next mapping finds it out, and makes another.
#[test]
fn a_pager_that_is_killed_at_one_stroke_is_replaced_by_whoever_maps_next() {
    if world().only_native || !on_demand() {
        return;
    }
    let Some((case, program)) = case("both", Driver::NoDescriptor, User::Me) else {
        return;
    };
    let script = format!("{program} make $M/file 25165824 && {program} both $M/file");
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.text(), "0 wrong\n", "{}", done.report());
    assert!(done.errors().contains("pager found"), "{}", done.report());
}
