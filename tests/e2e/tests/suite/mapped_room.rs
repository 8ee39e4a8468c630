//! Mapped files and the memory for them: a `/dev/shm` of 64 MB in a mount namespace of its own,
//! files that are larger, and the bound of a run.

use culvert_e2e::{Finished, run_within, world};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Runs `script` with a small `/dev/shm`; `$S` is a directory with files of 100, 20, 20, 20 and 40
/// MB, `$T` an empty one, `$P` `programs/mapped_room.c`, `$C` the command and `$R` what makes a
/// program an ordinary user's. None: not as root here.
pub(crate) fn in_little_memory(name: &str, script: &str) -> Option<Finished> {
    let world = world();
    if world.only_native || !world.is_root() {
        return None;
    }
    let place =
        std::env::temp_dir().join(format!("culvert-e2e-{}-room-{name}", std::process::id()));
    for folder in ["source", "target"] {
        fs::create_dir_all(place.join(folder)).expect("the temporary directory can be written");
    }
    culvert_e2e::open_to_all(&place);
    let program = world.program("mapped_room");
    let script = script!(
        "mapped_room/in_little_memory.sh",
        value = place.display(),
        program = program.display(),
        culvert = world.culvert.display(),
        script
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "bash", "-c", &script]);
    command.env_clear().current_dir("/");
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let done = run_within(command, b"", Duration::from_secs(120));
    fs::remove_dir_all(&place).expect("what the trial left can be removed");
    assert_eq!(done.status, "exit 0", "{}", done.report());
    Some(done)
}

/// The largest number of megabytes that were in use.
fn most_used(done: &Finished) -> u64 {
    let errors = done.errors();
    let numbers = errors.lines().filter_map(|line| line.strip_prefix("used "));
    let numbers = numbers.map(|number| number.parse().expect("a number"));
    numbers.max().expect("there are such lines")
}

const RIGHT: &str = "0 wrong\n0 wrong\n0 wrong, child 0\n";

#[test]
fn a_file_larger_than_the_memory_is_looked_through() {
    let script = "$C run --no-private -v $N -- $P scan $T/large";
    if let Some(done) = in_little_memory("scan", script) {
        assert_eq!(done.text(), RIGHT, "{}", done.report());
        assert!(most_used(&done) < 60, "{}", done.report());
    }
}

#[test]
fn the_bound_is_the_runs() {
    let script = "$C run --no-private --page-memory 16M -v $N -- $P scan $T/large 2";
    if let Some(done) = in_little_memory("bound", script) {
        assert_eq!(done.text(), RIGHT, "{}", done.report());
        assert!(most_used(&done) < 20, "{}", done.report());
    }
}

#[test]
fn members_of_archives_are_filled_on_demand() {
    let script = script!("mapped_room/members_of_archives_are_filled_on_demand.sh");
    if let Some(done) = in_little_memory("archive", script) {
        assert_eq!(done.text(), RIGHT.repeat(2), "{}", done.report());
        assert!(most_used(&done) < 60, "{}", done.report());
    }
}

#[test]
fn what_an_ordinary_user_has_no_room_for_is_no_mapping() {
    let script = script!("mapped_room/what_an_ordinary_user_has_no_room_for_is_no_mapping.sh");
    if let Some(done) = in_little_memory("user", script) {
        let each = "0 wrong\n".repeat(5);
        let want = format!("mmap: ENOMEM\n{each}0 wrong\nmmap: ENOMEM\nmmap: ENOMEM\n");
        assert_eq!(done.text(), want, "{}", done.report());
        assert!(done.errors().contains("find no room"), "{}", done.report());
    }
}

/// Three threads and a child store all over a file that is three times as large as what may lie in
/// memory: nothing that is dropped has a store that the file has not got.
#[test]
fn what_is_stored_is_written_back_and_makes_room() {
    let script = script!("mapped_room/what_is_stored_is_written_back_and_makes_room.sh");
    if let Some(done) = in_little_memory("written", script) {
        let text = done.text();
        let lines: Vec<&str> = text.lines().collect();
        let [wrong, counted, summed, stored] = lines[..] else {
            panic!("{}", done.report());
        };
        assert_eq!(wrong, "child 0, 0 wrong in the mapping, 0 in the file");
        assert_eq!(counted, summed, "{}", done.report());
        assert!(counted.ends_with(" 10000 10000 10000"), "{counted}");
        assert_eq!(stored, "all stored", "{}", done.report());
        assert!(most_used(&done) < 20, "{}", done.report());
    }
}

/// Storing changes the file's times, so that its shadow is not known to be equal any more: what is
/// missing of it is still missing, and is not read for that.
#[test]
fn a_file_that_was_changed_is_mapped_on_demand_again() {
    let script = script!("mapped_room/a_file_that_was_changed_is_mapped_on_demand_again.sh");
    if let Some(done) = in_little_memory("again", script) {
        let want = format!("b'ABC' b'ABC' b'www' {}\n", (100 << 20) - 5000);
        assert_eq!(done.text(), want, "{}", done.report());
    }
}

/// A page at a time, and never fewer than one instruction may need; an ordinary user's files find
/// no room.
#[test]
fn bounds_that_are_smaller_than_what_is_filled_at_once() {
    let script = script!("mapped_room/bounds_that_are_smaller_than_what_is_filled_at_once.sh");
    if let Some(done) = in_little_memory("small", script) {
        let want = "0 wrong\n0 wrong\n0 wrong\nmmap: ENOMEM\n0 wrong\n";
        assert_eq!(done.text(), want, "{}", done.report());
    }
}

/// What is mapped all at once finds room where pages can be dropped that are filled on demand.
#[test]
fn a_file_that_is_filled_at_once_takes_the_place_of_pages() {
    let script = "$P make $S/small 1; chmod 666 $S/small
$C run --no-private --page-memory 8M -v $N -- $P both $T/1 $T/small";
    if let Some(done) = in_little_memory("place", script) {
        assert_eq!(done.text(), "0 wrong\n0 wrong\n", "{}", done.report());
    }
}

#[test]
fn stores_that_find_no_room_are_a_signal_with_a_reason() {
    let script = "N=$N,layer=fault,fault.rule=write+errno=EIO
$C run --no-private -v $N -- $P store $T/large";
    if let Some(done) = in_little_memory("store", script) {
        assert_eq!(done.text(), "BUS\n", "{}", done.report());
        assert!(
            done.errors().contains("keeps its memory"),
            "{}",
            done.report()
        );
        let reason = "cannot be read, SIGBUS: No space left";
        assert!(done.errors().contains(reason), "{}", done.report());
    }
}

/// What is read by calls takes no room, for nobody would give it back.
#[test]
fn a_mapped_file_larger_than_the_memory_is_read_by_calls() {
    for (name, bound, most) in [("calls", "", 10), ("calls-bound", "--page-memory 4M", 6)] {
        let script = format!("$C run --no-private {bound} -v $N -- $P calls $T/large");
        if let Some(done) = in_little_memory(name, &script) {
            let want = "100 MiB, to the end, 0 wrong\n0 wrong, behind the end 0\n";
            assert_eq!(done.text(), want, "{}", done.report());
            assert!(most_used(&done) < most, "{}", done.report());
        }
    }
}

/// Mappings that want all of a file at once leave its holes.
#[test]
fn what_is_filled_at_once_of_a_sparse_file_is_what_it_holds() {
    let script = script!("mapped_room/what_is_filled_at_once_of_a_sparse_file_is_what_it_holds.sh");
    if let Some(done) = in_little_memory("sparse", script) {
        let want = "MAP_POPULATE: good\nPROT_EXEC: good\nMREMAP_FIXED: good\nchild 0, a 0 fcs 0 \
            s\nright, afsm, sparse\n";
        assert_eq!(done.text(), want.repeat(2), "{}", done.report());
        assert!(most_used(&done) < 20, "{}", done.report());
    }
}

#[test]
fn what_finds_no_room_when_it_is_filled_at_once_is_no_mapping() {
    let script = "$C run --no-private -v $N -- $P filled $T/large";
    if let Some(done) = in_little_memory("filled", script) {
        let want = "MAP_POPULATE: ENOMEM\nPROT_EXEC: ENOMEM\nMREMAP_FIXED: ENOMEM\n0 wrong\n";
        assert_eq!(done.text(), want, "{}", done.report());
        assert!(done.errors().contains("find no room"), "{}", done.report());
    }
}
