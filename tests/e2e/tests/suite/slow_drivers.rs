//! Threads that wait in a driver, beside those that make processes (`programs/slow_driver.c`).

use culvert_e2e::{Case, Driver, User, world};

const DRIVERS: [Driver; 4] = [
    Driver::Memory,
    Driver::Driven,
    Driver::NoDescriptor,
    Driver::Paths,
];

/// Runs the program in `mode`; the first operation `waits` until it has done with its children.
#[track_caller]
fn beside_a_thread(mode: &str, waits: &str, said: &str) {
    if world().only_native {
        return;
    }
    for driver in DRIVERS {
        // The layer has no part in listings of open directories, which this one has.
        if (driver, mode) == (Driver::Paths, "list") {
            continue;
        }
        let name = format!("slow-{mode}-{}", driver.name());
        let fifo = world().path(&name);
        let case = Case::new(&name, User::Me)
            .options(format!(
                "layer=fault,fault.count=run,fault.rule={waits}+times=1+until={}",
                fifo.display()
            ))
            .directory(driver);
        let program = case.program("slow_driver");
        let script = script!(
            "slow_drivers/beside_a_thread.sh",
            fifo = fifo.display(),
            program,
            mode
        );
        let done = case.through_culvert(&["bash", "-c", &script]);
        assert_eq!(done.text(), said, "{}", done.report());
    }
}

/// What the program says where three children have come and gone while its thread waited.
fn children(bytes: &str, at: u32) -> String {
    format!(
        "child of fork: 0\nother0123456789abcdefghij\nchild of posix_spawn: 0\nchild of fork: 0\n\
         the thread waits\n{bytes} at {at}\nthe offset is the child's: 0\n"
    )
}

#[test]
fn a_slow_driver_holds_up_no_fork() {
    beside_a_thread("pread", "read+path=/slow", &children("01234567", 0));
}

#[test]
fn a_slow_read_at_an_offset_holds_up_no_fork() {
    beside_a_thread("read", "read+path=/slow", &children("01234567", 8));
}

#[test]
fn a_slow_read_at_a_shared_offset_holds_up_no_fork() {
    beside_a_thread("shared", "read+path=/slow", &children("01234567", 8));
}

#[test]
fn a_slow_listing_holds_up_no_fork() {
    beside_a_thread("list", "read_directory", &children("", 0));
}

/// A child that reads at the offset at which its parent's thread is reading has the bytes behind.
#[test]
fn a_child_waits_for_the_read_at_its_offset() {
    let said = "the thread waits\nchild: 0\n01234567 at 16\nthe offset is the child's: 0\n";
    beside_a_thread("divide", "read+path=/slow", said);
}
