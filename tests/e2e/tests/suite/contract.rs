//! The driver contract: what each front end calls, and that what is open ends with its program. By
//! the layer `trace`, which writes each call of a driver down.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Case, Driver, User, world};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that were written down, without the process.
fn calls(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).expect("the layer has written");
    let call = |line: &str| line.split_once(' ').expect("process and call").1.to_owned();
    text.lines().map(call).collect()
}

/// The method that a line names.
fn method(call: &str) -> &str {
    match call.strip_prefix("restore ") {
        Some(_) => "restore",
        None => call.rsplit(' ').next().unwrap_or(call),
    }
}

/// What `programs/ending.c` makes of its files: flushes and closings of each.
fn ends(driver: Driver, how: &str, want: &[&str]) {
    if world().only_native {
        return;
    }
    let name = format!("ending-{}-{how}", driver.name());
    let log = world().path(&format!("{name}.log"));
    let case = Case::new(&name, User::Me)
        .directory(driver)
        .options(format!("layer=trace,trace.to={}", log.display()));
    let program = case.program("ending");
    let script = format!("exec {program} $M {how}");
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{how} {}", done.report());
    let all = calls(&log);
    let told = |call: &&String| call.ends_with(" flush") || call.ends_with(" closed");
    let told: Vec<&str> = all.iter().filter(told).map(String::as_str).collect();
    assert_eq!(told, want, "{how} on {}: {all:#?}", driver.name());
    let last = all.iter().rposition(|call| call == "finish");
    let closed = all.iter().rposition(|call| call.starts_with("file "));
    assert!(last > closed, "{how} on {}: {all:#?}", driver.name());
}

const DRIVERS: [Driver; 2] = [Driver::Driven, Driver::Memory];

/// A file with two descriptors is flushed twice and closed once, as by close(2), before its mount
/// is finished.
#[test]
fn a_program_that_ends_flushes_and_closes_what_is_open() {
    let want = ["file 1 flush", "file 1 flush", "file 1 closed"];
    for driver in DRIVERS {
        for how in ["return", "exit_group", "exit", "last", "close_range"] {
            ends(driver, how, &want);
        }
    }
}

/// What a mapping alone keeps open is closed too, after what was stored there was written.
#[test]
fn a_program_that_ends_closes_what_it_maps() {
    let want = ["file 1 flush", "file 1 flush", "file 1 closed"];
    ends(Driver::NoDescriptor, "mapped", &want);
}

/// Each process flushes what it closes, and lets go of what it has.
#[test]
fn a_child_that_ends_flushes_and_closes_what_it_has() {
    let one = ["file 1 flush", "file 1 flush", "file 1 closed"];
    for driver in DRIVERS {
        ends(driver, "child", &[one, one].concat());
    }
}

/// An exec that fails has closed nothing; one that succeeds has flushed what it closes.
#[test]
fn exec_flushes_what_it_closes() {
    for driver in DRIVERS {
        ends(driver, "exec", &["file 1 flush"]);
    }
}

/// The number that the layer saves of an open file is the one that it goes on with.
#[test]
fn what_is_saved_of_an_open_file_is_there_in_the_next_program() {
    if world().only_native {
        return;
    }
    let log = world().path("saved.log");
    let case = Case::new("saved", User::Me)
        .directory(Driver::Memory)
        .options(format!("layer=trace,trace.to={}", log.display()));
    // Descriptors 8 and 9; the shell between does not look at 9.
    let script = script!("contract/what_is_saved_of_an_open_file_is_there_in_the_next_program.sh");
    let done = case.through_culvert(&["bash", "-c", script]);
    assert_eq!(done.text(), "one\ntwo\n", "{}", done.report());
    let all = calls(&log);
    let of = |call: &&String| call.starts_with("restore") || call.ends_with(" save");
    let found: Vec<&str> = all.iter().filter(of).map(String::as_str).collect();
    // Files 1 and 2 were written. The second program saves 3 again, and hands on what it has of 4.
    let want = [
        "file 3 save",
        "file 4 save",
        "restore file 3",
        "file 3 save",
        "restore file 4",
    ];
    assert_eq!(found, want, "{all:#?}");
}

/// The methods of the trait `name` in `source`, of crates/culvert/src.
fn methods(source: &str, name: &str) -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crates/culvert/src");
    let text = fs::read_to_string(path.join(source)).expect("the sources are there");
    let body = text
        .split_once(&format!("pub trait {name}: "))
        .and_then(|(_, rest)| rest.split_once("\n}\n"))
        .expect("the trait is there")
        .0;
    let of_line = |line: &str| {
        let rest = line.strip_prefix("    fn ")?;
        Some(rest.split(['(', '<']).next()?.to_owned())
    };
    body.lines().filter_map(of_line).collect()
}

/// The table of docs/writing-a-driver.md: each method with whether the bypass and the kernel server
/// call it.
fn table() -> BTreeMap<String, (bool, bool)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/writing-a-driver.md");
    let text = fs::read_to_string(path).expect("the page is there");
    let section = text
        .split_once("| method | bypass | kernel server |")
        .expect("the table is there");
    let rows = section.1.lines().skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`').to_owned();
            (name, (cells[2] == "yes", cells[3] == "yes"))
        })
        .collect()
}

/// No driver of Culvert's own has these; the driver `telling` is asked for them in kernel_told.rs.
/// Front ends ask `statfs_of`, which asks `statfs` in the driver itself.
const SEEN_ELSEWHERE: [(&str, &str); 18] = [
    ("birth_time", "the_time_of_birth_is_that_of_the_file_behind"),
    ("statfs", "statfs_of"),
    ("poll", "who_waits_waits_until_the_driver_says_so"),
    (
        "waiter",
        "who_waits_for_a_servers_file_waits_until_it_says_so",
    ),
    ("get_lock", "locks_are_the_drivers"),
    ("set_lock", "locks_are_the_drivers"),
    ("flock", "locks_are_the_drivers"),
    ("lock_file", "record_locks_exclude_other_runs"),
    ("locked", "who_gets_a_lock_reads_what_was_written_under_it"),
    (
        "before_unlock",
        "who_gets_a_lock_reads_what_was_written_under_it",
    ),
    // Where there is the module for extensions: in guests.
    (
        "extended",
        "a_driver_in_c_changes_the_maps_of_its_extension",
    ),
    ("reach_new", "what_is_there_is_not_made_again"),
    // Asked of a driver that no layer covers.
    ("attributes_at", "a_path_below_a_layer_costs_few_calls"),
    ("change_at", "a_path_below_a_layer_costs_few_calls"),
    (
        "unlink_at",
        "a_change_without_a_lookup_goes_to_what_is_there",
    ),
    ("rename_at", "a_path_below_a_layer_costs_few_calls"),
    // Asked of a FUSE server's client, which no layer covers.
    (
        "known_rights",
        "who_may_do_what_is_known_after_changes_of_bytes_and_names_alone",
    ),
    (
        "has_ended",
        "a_server_that_dies_is_started_again_and_what_was_open_is_lost",
    ),
];

fn called(log: &Path) -> BTreeSet<String> {
    calls(log)
        .iter()
        .map(|call| method(call).to_owned())
        .collect()
}

#[test]
fn the_table_of_callers_names_each_method_of_the_contract() {
    let mut all = methods("filesystem.rs", "FileSystem");
    all.extend(methods("file.rs", "File"));
    let table = table();
    let named: BTreeSet<String> = table.keys().cloned().collect();
    assert_eq!(named, all);
    for (method, (bypass, kernel)) in table {
        assert!(bypass || kernel, "nobody calls {method}: remove it");
    }
}

/// `programs/every_method.py` through the bypass: what its drivers were called for is what the
/// table says.
#[test]
fn the_bypass_calls_what_the_table_says() {
    if world().only_native {
        return;
    }
    let mut found = BTreeSet::new();
    for driver in DRIVERS {
        let name = format!("every-method-{}", driver.name());
        let log = world().path(&format!("{name}.log"));
        let case = Case::new(&name, User::Me)
            .directory(driver)
            .options(format!("layer=trace,trace.to={}", log.display()));
        let program = case.program("every_method.py");
        let script = format!("exec python3 -B {program} $M");
        let done = case.through_culvert(&["bash", "-c", &script]);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        found.extend(called(&log));
    }
    compare(&found, |(bypass, _)| bypass);
}

/// The same through kernel mounts.
#[test]
fn the_kernel_server_calls_what_the_table_says() {
    if !possible() {
        return;
    }
    let log = world().path("every-method-kernel.log");
    let layer = format!("layer=trace,trace.to={}", log.display());
    let program = world().program("every_method.py");
    let own = format!("driven,descriptor=no,{layer}");
    let watch = format!("driven,watch,{layer}");
    for (name, words, options) in [
        ("every-method-own", &[][..], &own),
        ("every-method-watch", &["--restart"], &watch),
    ] {
        let mut all = words.to_vec();
        all.extend(["-o", options]);
        let mount = Mounted::new(name, &all);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let mut script = format!("python3 -B {} {target} || exit 1\n", program.display());
        if name.ends_with("watch") {
            // Another server goes on with what is open.
            script += &script!(
                "contract/the_kernel_server_calls_what_the_table_says.sh",
                target,
                last = mount.server().lines().last().expect("there is a server"),
                source
            );
        }
        let done = shell(&script);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let down = culvert(&["umount", &target]);
        assert_eq!(down.status, "exit 0", "{}", down.report());
    }
    compare(&called(&log), |(_, kernel)| kernel);
}

/// What was called is what the table says of a front end.
fn compare(found: &BTreeSet<String>, marked: impl Fn((bool, bool)) -> bool) {
    let elsewhere = |name: &String| SEEN_ELSEWHERE.iter().any(|(seen, _)| seen == name);
    let table = table();
    let wanted = table.into_iter().filter(|(_, marks)| marked(*marks));
    let wanted: BTreeSet<String> = wanted.map(|(name, _)| name).collect();
    // The end of a File is no method.
    let found = found.iter().filter(|name| *name != "closed");
    let found: BTreeSet<String> = found.cloned().collect();
    let missing = wanted
        .difference(&found)
        .filter(|name| !elsewhere(name))
        .collect::<Vec<_>>();
    assert!(missing.is_empty(), "not called: {missing:?}");
    let more: Vec<_> = found.difference(&wanted).collect();
    assert!(more.is_empty(), "called, and not in the table: {more:?}");
}
