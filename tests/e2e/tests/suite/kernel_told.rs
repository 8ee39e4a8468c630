//! Kernel mounts of a driver that does what it is told (`telling`, of this crate): files that
//! become ready (poll(2), select(2), epoll(7)), and each notification that a driver can give, by
//! what the kernel asks afterwards and what programs see.

use crate::{
    kernel_mount::{Mounted, possible},
    kernel_transport::transports,
};
use culvert_e2e::world;
use std::process::Command;

/// `case` of programs/telling.py, with these words for the driver.
#[track_caller]
fn told(case: &str, words: &[&str]) {
    if !possible() {
        return;
    }
    for transport in transports() {
        let ring = transport.ends_with("ring").then_some("--ring");
        // Who waits for a lock would keep a place of the ring: the two do not go together.
        if ring.is_some() && words.contains(&"posix-locks") {
            continue;
        }
        let name = format!("told-{case}{}-{}", words.concat(), &transport[10..]);
        let place = Mounted::place(&name);
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/telling.py");
        // Namespaces that other tests make have no copy of the mount: it, and with it the server,
        // ends when it is unmounted.
        let mut command = Command::new("unshare");
        command
            .args(["-m", "python3", program, case])
            .arg(env!("CARGO_BIN_EXE_telling"))
            .arg(place.text("target"))
            .args(words)
            .args(ring)
            .current_dir(&world().base);
        let done = culvert_e2e::run(command, &[]);
        print!("{}", done.text());
        assert_eq!(done.status, "exit 0", "{case} {}", done.report());
    }
}

macro_rules! cases {
    ($($name:ident $case:literal $words:expr;)*) => { $(
        #[test]
        fn $name() { told($case, &$words); }
    )* };
}

cases! {
    who_waits_waits_until_the_driver_says_so "ready" [];
    what_nobody_waits_for_ends_no_wait "other_bits" [];
    several_wait "several" [];
    a_file_that_cannot_be_asked_is_alone "not_asked" [];
    each_word_of_the_driver_is_an_event "edge" [];
    without_poll_all_is_ready "always_ready" ["--without", "poll"];
    a_driver_that_does_not_poll_is_always_ready "always_ready" ["--always-ready"];
    a_name_is_another "name" [];
    a_name_is_in_doubt "doubtful" [];
    a_name_was_removed "removed" [];
    every_name_is_another "everything" [];
    attributes_and_content_have_changed "content" [];
    locks_are_the_drivers "locks" ["--with", "posix-locks", "--with", "flock-locks"];
    an_unneeded_node_is_forgotten "unneeded" [];
}
