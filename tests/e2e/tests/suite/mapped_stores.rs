//! Files whose bytes only their driver has, mapped so that they can be written: against the kernel
//! line by line, and with writers that are killed.
//!
//! `CULVERT_MAPPING_KILLS` (24 for each driver) and `CULVERT_MAPPING_SEED` (1) for longer trials by
//! hand.

use culvert_e2e::{Case, Driver, User, open_to_all, run_within, world};
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::Duration;

/// Where programs are that every user may run.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// `programs/mapped_stores.c` says what it sees, and leaves the same files.
fn agrees(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-stores-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_stores");
    case.good(&format!("umask 022; exec {program} $M"));
}

/// `programs/killed_mappings.py` on a mount with `options`.
fn survives(options: &str, user: User) {
    let world = world();
    if (user == User::Nobody && !world.is_root()) || world.only_native {
        return;
    }
    let asked = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let rounds = asked("CULVERT_MAPPING_KILLS", "24");
    let seed = asked("CULVERT_MAPPING_SEED", "1");
    let place = std::env::temp_dir().join(format!(
        "culvert-e2e-{}-killed-mappings-{options}-{user:?}",
        std::process::id()
    ));
    fs::create_dir_all(&place).expect("the temporary directory can be written");
    open_to_all(&place);
    let script = world.program("killed_mappings.py");
    let mut words = vec!["python3", "-B"];
    if user == User::Nobody {
        chown(&place, Some(65534), Some(65534)).expect("we are root");
        let as_nobody = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        words.splice(0..0, as_nobody);
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(&script).arg(&world.culvert);
    command.arg(options).arg(&place).args([&rounds, &seed]);
    command.env_clear().current_dir("/");
    command.env("PATH", PATH).env("TMPDIR", &place);
    let rounds: u64 = rounds.parse().expect("CULVERT_MAPPING_KILLS is a number");
    let done = run_within(command, b"", Duration::from_secs(60 + rounds * 2));
    fs::remove_dir_all(&place).expect("what the trial left can be removed");
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

/// `programs/kept_stores.py`: written back after the source has come back; a file that was changed
/// meanwhile stays as it is.
#[test]
fn what_cannot_be_written_back_is_kept_and_said_once() {
    let world = world();
    if world.only_native {
        return;
    }
    let place = std::env::temp_dir().join(format!("culvert-e2e-{}-kept", std::process::id()));
    fs::create_dir_all(&place).expect("the temporary directory can be written");
    let mut command = Command::new("python3");
    command.arg("-B").arg(world.program("kept_stores.py"));
    command.arg(&world.culvert).arg(&place);
    command
        .env_clear()
        .current_dir("/")
        .env("PATH", PATH)
        .env("TMPDIR", &place);
    let done = run_within(command, b"", Duration::from_secs(60));
    fs::remove_dir_all(&place).expect("what the trial left can be removed");
    let wanted = "1 True 0\nstored False\n1 True 0\nedited True\n";
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        wanted,
        "{}",
        done.report()
    );
}

/// `programs/mapped_over.c`.
#[test]
fn a_mapping_that_fails_leaves_the_one_that_it_would_replace() {
    let case = Case::new("mapped-over", User::Me).directory(Driver::NoDescriptor);
    let program = case.program("mapped_over");
    case.good(&format!("exec {program} $M/file"));
}

/// `programs/mapped_together.c`.
fn together(user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let case =
        Case::new(&format!("mapped-together-{user:?}"), user).directory(Driver::NoDescriptor);
    let program = case.program("mapped_together");
    case.good(&format!("exec {program} $M/file 6"));
}

#[test]
fn who_maps_at_the_same_time_undoes_no_store() {
    together(User::Me);
}

#[test]
fn who_maps_at_the_same_time_undoes_no_store_as_nobody() {
    together(User::Nobody);
}

/// `programs/mapped_children.c`.
fn children(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let name = format!("mapped-children-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program("mapped_children");
    // What the driver has is read when nobody maps anything any more.
    case.good(&format!("umask 022; {program} $M && cd $M && md5sum *"));
}

#[test]
fn what_children_store_is_in_the_file_whatever_they_do_to_their_pages() {
    children(Driver::NoDescriptor, User::Me);
}

#[test]
fn what_children_store_as_nobody() {
    children(Driver::NoDescriptor, User::Nobody);
}

#[test]
fn what_children_store_below_a_layer() {
    children(Driver::Layered, User::Me);
}

#[test]
fn without_a_descriptor_as_self() {
    agrees(Driver::NoDescriptor, User::Me);
}

#[test]
fn without_a_descriptor_as_nobody() {
    agrees(Driver::NoDescriptor, User::Nobody);
}

#[test]
fn below_a_layer_as_self() {
    agrees(Driver::Layered, User::Me);
}

#[test]
fn below_a_layer_as_nobody() {
    agrees(Driver::Layered, User::Nobody);
}

#[test]
fn what_a_killed_process_had_stored_is_in_the_file() {
    survives("driven,descriptor=no", User::Nobody);
}

#[test]
fn below_a_layer_too() {
    survives("layer=fault,descriptor=no", User::Me);
}
