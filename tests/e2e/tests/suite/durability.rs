//! Workers are killed at random operations: what they had finished is there, what was fsynced above
//! all, and the rest works on.
//!
//! `CULVERT_DURABILITY_OPERATIONS` (3,000 for each driver) and `CULVERT_DURABILITY_SEED` (1) for
//! longer trials by hand.

use culvert_e2e::{Case, Driver, User, open_to_all, run_within, world};
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where programs are that every user may run.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Runs `durability.py` on the driver `kind` as `user`.
fn survives(kind: &str, user: User) {
    let world = world();
    if user == User::Nobody && !world.is_root() {
        return;
    }
    let asked = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |text| text.parse().expect(name))
    };
    let operations = asked("CULVERT_DURABILITY_OPERATIONS", 3000);
    let seed = asked("CULVERT_DURABILITY_SEED", 1);
    let memory = Path::new("/dev/shm");
    let parent = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let place = parent.join(format!(
        "culvert-e2e-{}-durability-{kind}",
        std::process::id()
    ));
    fs::create_dir_all(&place).expect("the directory in memory can be written");
    open_to_all(&place);
    let (script, worker) = (world.program("durability.py"), world.program("durability"));
    let kind = if world.only_native { "native" } else { kind };
    let mut words = Vec::new();
    if user == User::Nobody {
        chown(&place, Some(65534), Some(65534)).expect("we are root");
        words.extend([
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
        ]);
    }
    words.extend(["python3", "-B"]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(&script).arg("run");
    command
        .arg(&world.culvert)
        .arg(&worker)
        .arg(kind)
        .arg(&place);
    command.args([operations.to_string(), seed.to_string()]);
    command.env_clear().current_dir("/");
    command
        .env("PATH", PATH)
        .env("HOME", &place)
        .env("TMPDIR", &place);
    let done = run_within(command, b"", Duration::from_secs(60 + operations / 100));
    fs::remove_dir_all(&place).expect("what the trial left can be removed");
    eprint!("{kind}: {}", done.text());
    assert_eq!(done.status, "exit 0", "{}", done.report());
}

#[test]
fn killed_workers_of_passthrough_lose_nothing() {
    survives("passthrough", User::Nobody);
}

#[test]
fn killed_workers_of_driven_passthrough_lose_nothing() {
    survives("driven", User::Me);
}

#[test]
fn killed_workers_of_memory_lose_nothing() {
    survives("memory", User::Nobody);
}

/// After what has tables that grow with use has grown them (`programs/memory_blocks.py`).
fn gives_back(user: User) {
    if world().only_native || (user == User::Nobody && !world().is_root()) {
        return;
    }
    let case = Case::new(&format!("blocks-{user:?}"), user).directory(Driver::Memory);
    let program = case.program("memory_blocks.py");
    let script = format!("exec python3 -B {program} $M");
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.text(), "nothing is lost\n", "{}", done.report());
}

#[test]
fn what_is_removed_from_memory_gives_all_its_blocks_back() {
    gives_back(User::Me);
}

#[test]
fn what_an_ordinary_user_removes_from_memory_gives_all_its_blocks_back() {
    gives_back(User::Nobody);
}
