//! Descriptors of mounts in the arguments of calls on other files: loop devices, fsconfig(2),
//! handles.

use culvert_e2e::{Case, Driver, User, not_tested, world};
use std::path::Path;

/// Where only a driver has the file the call fails; it never is done on what stands for the file.
#[test]
fn a_file_in_an_argument_is_the_file_or_refused() {
    if !world().is_root() || world().only_native {
        return;
    }
    if !Path::new("/dev/loop-control").exists() {
        not_tested("loop devices: there is no /dev/loop-control");
        return;
    }
    for (driver, expected) in [
        (
            Driver::Memory,
            "ioctl(loop, LOOP_CONFIGURE, &configuration): EINVAL\n-1 \nioctl(loop, LOOP_SET_FD, \
            fd): EINVAL\n-1 \n",
        ),
        (
            Driver::Driven,
            "ioctl(loop, LOOP_CONFIGURE, &configuration): ok\n8 contents\nioctl(loop, \
            LOOP_SET_FD, fd): ok\n8 contents\n",
        ),
    ] {
        let case = Case::new(&format!("in-arguments-{driver:?}"), User::Me).directory(driver);
        let program = case.program("descriptor_arguments");
        let done = case.through_culvert(&["bash", "-c", &format!("exec {program} $M/file")]);
        let text = done.text();
        // What a loop device without a file reads as is the kernel's: an error, or no bytes.
        let text = text.replace("\n0 \n", "\n-1 \n");
        if text.starts_with("no loop device") {
            not_tested("loop devices: none is free");
            return;
        }
        assert!(
            text.starts_with(&format!("{expected}{expected}")),
            "{driver:?}: {}",
            done.report()
        );
        if driver == Driver::Memory {
            for line in [
                "O_RDONLY): ESTALE",
                "PR_SET_MM_EXE_FILE, fd, 0, 0): EACCES",
                "\"source\", NULL, fd): EINVAL",
                "0x40187542, &buffer): EBADFD",
            ] {
                assert!(
                    text.lines().any(|told| told.ends_with(line)),
                    "{line}\n{text}"
                );
            }
        }
    }
}

/// Calls that are refused on descriptors of mounts do not find those that Culvert keeps either.
#[test]
fn no_call_finds_what_is_hidden() {
    let case = Case::new("hidden-numbers", User::Me).directory(Driver::Driven);
    let program = case.program("hidden_numbers.py");
    let line = format!("ulimit -n 1024; exec python3 {program} $M/file");
    assert_eq!(
        case.through_culvert(&["bash", "-c", &line]).text(),
        "[] True\n"
    );
}
