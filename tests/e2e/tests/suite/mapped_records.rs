//! What a run notes of who maps which file (`programs/mapped_records.c`): it lasts as long as the
//! process, is room for the next one when that was killed, and is about this file, not about a
//! later one with its number.

use culvert_e2e::{Case, Driver, User, world};

/// What the program says, and the log.
fn says(what: &str, user: User) -> Option<(String, String)> {
    says_with(what, user, "")
}

/// The same with more options of the mount.
fn says_with(what: &str, user: User, options: &str) -> Option<(String, String)> {
    if world().only_native || (user == User::Nobody && !world().is_root()) {
        return None;
    }
    let name = format!("mapped-records-{what}-{user:?}-{options}");
    let mut case = Case::new(&name, user).directory(Driver::NoDescriptor);
    if !options.is_empty() {
        case = case.options(options);
    }
    let program = case.program("mapped_records");
    let behind = case.behind().expect("a directory").join("file");
    let script = script!(
        "mapped_records/says.sh",
        program,
        what,
        behind = behind.display()
    );
    let done = case.through_culvert(&["bash", "-c", &script]);
    Some((done.text(), done.errors()))
}

fn works(what: &str, user: User, want: &str) {
    if let Some((seen, log)) = says(what, user) {
        assert_eq!(seen, format!("{want}end 0\n"), "{log}");
    }
}

/// The descriptor on which the proof of its life hangs has to move.
#[test]
fn a_program_that_takes_all_high_numbers_stays_the_owner_of_what_it_maps() {
    works(
        "number",
        User::Me,
        "all taken: 1\nstored 2, read 2\nstored 3, read 3\nstored 4, read 4\nstored 5, read 5\n",
    );
}

#[test]
fn places_that_killed_processes_left_half_made_are_used_again() {
    works("half", User::Nobody, "Other\n");
}

#[test]
fn places_of_killed_processes_are_used_again() {
    works("dead", User::Me, "Other\n");
}

#[test]
fn more_mapped_files_than_there_are_places_is_an_error_with_a_reason() {
    let Some((seen, log)) = says("full", User::Me) else {
        return;
    };
    assert_eq!(seen, "mmap: ENOMEM\nother\nend 0\n", "{log}");
    assert!(log.contains("more than 8192 files are mapped"), "{log}");
}

/// Where the file system gives a number twice, as ext4 does and tmpfs does not.
#[test]
fn what_was_stored_in_a_removed_file_does_not_come_into_another_with_its_number() {
    let Some((seen, log)) = says("reused", User::Me) else {
        return;
    };
    let good = ["another another\nend 0\n", "not reused\nend 0\n"];
    assert!(good.contains(&seen.as_str()), "{seen}{log}");
}

#[test]
fn what_was_stored_is_in_the_file_when_its_descriptor_is_closed() {
    let want = "close: stored\ndup2: others\nclose_range: ranges\n";
    works("closed", User::Me, want);
    works("closed", User::Nobody, want);
}

#[test]
fn what_anybody_has_stored_is_in_the_file_when_msync_returns() {
    let want = "a child, by the mapping: aaaa\na child, by a part: bb\nthis process, by another \
        mapping: cc\na child, by a mapping of a reader: dd\n";
    works("synced", User::Me, want);
    works("synced", User::Nobody, want);
}

/// What a reader's msync cannot bring to the file is an error of it: the first open is that of the
/// reader, the second and the third are those of msync, which writes and which makes durable.
#[test]
fn an_msync_that_cannot_open_the_file_fails() {
    for (rule, want) in [
        ("read+after=1000+errno=EIO", "msync 0 \nend 0\n"),
        (
            "open+after=1+times=1+errno=EMFILE",
            "msync -1 EMFILE\nend 0\n",
        ),
        ("open+after=2+times=1+errno=EIO", "msync -1 EIO\nend 0\n"),
        // Who may not write the file leaves the stores of others to them.
        ("open+after=1+times=1+errno=EACCES", "msync 0 \nend 0\n"),
    ] {
        let options = format!("layer=fault,fault.rule={rule}");
        let Some((seen, log)) = says_with("brings", User::Me, &options) else {
            return;
        };
        assert_eq!(seen, want, "{rule}: {log}");
    }
}

#[test]
fn an_msync_that_cannot_find_out_what_is_mapped_fails() {
    works("brings-limited", User::Me, "msync -1 EMFILE\n");
}

/// The limit is the program's, and what Culvert opens for it is not: it is raised for that moment.
#[test]
fn who_has_no_descriptor_left_sees_what_others_have_stored_and_written() {
    for user in [User::Me, User::Nobody] {
        works("reads", user, "read stored\n");
        works("given", user, "read after!\n");
    }
}

/// Where it cannot be raised there is an error, and no old bytes.
#[test]
fn who_may_have_no_descriptor_is_told_so_instead_of_seeing_old_bytes() {
    works("reads-hard", User::Nobody, "read EMFILE\n");
    works("given-hard", User::Nobody, "read EMFILE\n");
}
