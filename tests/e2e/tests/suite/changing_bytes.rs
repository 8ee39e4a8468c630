//! Every call that changes a file's bytes, as `programs/writing.c` makes them, each group in a
//! process of its own.

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

fn group(case: &Case, name: &str) {
    let writing = case.program("writing");
    case.good(&format!(
        "umask 022; cd $M && OUTSIDE=$W/outside exec {writing} {name}"
    ));
}

on_each_driver! {
    write |case| group(&case, "write");
    vectors_and_flags |case| group(&case, "vectors");
    buffers_that_end_in_the_middle |case| group(&case, "half");
    append |case| group(&case, "append");
    open_flags_and_files_without_names |case| group(&case, "open");
    size_and_holes |case| group(&case, "size");
    file_size_limit |case| group(&case, "limit");
    umask |case| group(&case, "umask");
    sendfile_splice_and_copies |case| group(&case, "transfer");
    mappings |case| group(&case, "map");
    shared_mappings |case| group(&case, "shared-map");
    asynchronous_io_of_the_kernels |case| {
        let aio = case.program("aio");
        case.good(&format!("umask 022; cd $M && exec {aio}"));
    };
    what_a_file_cannot_take_stays_in_the_pipe |case| {
        let spliced = case.program("spliced");
        case.good(&format!("cd $M && {spliced} limited 123456 exact && {spliced} page 8192 exact"));
    };
}

/// The same where there is no more room, as on a full tmpfs, and where the driver fails.
#[test]
fn what_a_full_or_broken_file_cannot_take_stays_in_the_pipe() {
    let said = |errno: &str| format!("refused: {errno}\nin order, nothing lost\n");
    let case = |name: &str| Case::new(&format!("spliced::{name}"), User::Me);
    let full = case("full").directory(Driver::Memory).options("size=1m");
    let spliced = full.program("spliced");
    let script = format!("cd $M && {spliced} f 0");
    let done = full.through_culvert(&["bash", "-c", &script]);
    if !world().only_native {
        assert_eq!(
            done.text(),
            said("No space left on device"),
            "{}",
            done.report()
        );
    }
    if world().is_root() {
        let script = format!("mount -t tmpfs -o size=1m tmpfs $W && {spliced} $W/f 0");
        let done = case("tmpfs").natively(&["unshare", "-m", "bash", "-c", &script]);
        assert_eq!(
            done.text(),
            said("No space left on device"),
            "{}",
            done.report()
        );
    }
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        let broken = case(driver.name()).directory(driver).options("layer=fault,fault.rule=write+path=/f+after=2+errno=EIO,fault.rule=write+path=/f+short=5000");
        let done = broken.through_culvert(&["bash", "-c", &script]);
        if !world().only_native {
            assert_eq!(done.text(), said("Input/output error"), "{}", done.report());
        }
    }
}
