//! Descriptors of files on a mount that come to processes which see no mounts: by a socket, by exec
//! below another root.

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

fn gives_away(case: &Case) {
    let (program, fixed) = (
        case.program("given_away"),
        case.program("given_away-static"),
    );
    case.good(&format!(
        "mkdir $W/root && cp {fixed} $W/root/static && cd $M && exec {program} $W/root {fixed}"
    ));
}

on_each_driver! {
    who_sees_no_mounts_reads_and_writes_what_it_is_given |case| gives_away(&case);
}

/// Where only the driver has the bytes.
#[test]
fn who_sees_no_mounts_reads_and_writes_what_it_is_given_without_descriptors() {
    for driver in [Driver::NoDescriptor, Driver::Layered] {
        let name = format!("given-away-{}", driver.name());
        gives_away(&Case::new(&name, User::Me).directory(driver));
    }
}

/// A member of an archive, which is filled at once.
#[test]
fn a_process_below_another_root_reads_a_member_of_an_archive() {
    let case = Case::new("given-away-archive", User::Me).odd();
    let fixed = case.program("given_away-static");
    case.good(&script!(
        "given_away/a_process_below_another_root_reads_a_member_of_an_archive.sh",
        fixed
    ));
}

/// Rather an error than bytes that are not the file's.
#[test]
fn what_cannot_be_read_is_not_given_away() {
    let case = Case::new("given-away-unread", User::Me)
        .options("layer=fault,fault.rule=read+errno=EIO+path=/lines.txt")
        .odd();
    let (program, fixed) = (
        case.program("given_away"),
        case.program("given_away-static"),
    );
    let script = script!(
        "given_away/what_cannot_be_read_is_not_given_away.sh",
        program,
        fixed
    );
    let done = case.through_culvert(&["sh", "-c", &script]);
    let want = "pass(pair[0], fd) = -1 EIO\n1\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// Somebody who was there before the run, and is none of it.
#[test]
fn a_server_outside_of_the_run_reads_and_writes_what_it_is_given() {
    for driver in [Driver::Memory, Driver::NoDescriptor, Driver::Driven] {
        let name = format!("given-outside-{}", driver.name());
        let case = Case::new(&name, User::Me).directory(driver);
        let program = case.program("given_away");
        let path = world().path("sockets").join(&name);
        std::fs::create_dir_all(path.parent().expect("it is below the base directory"))
            .expect("the base directory is ours");
        let client = format!("cd $M && exec {program} client {}", path.display());
        let serve = || {
            let _ = std::fs::remove_file(&path);
            let mut server = std::process::Command::new(&program);
            server
                .arg("serve")
                .arg(&path)
                .stdout(std::process::Stdio::piped());
            server.spawn().expect("the server is a program of ours")
        };
        let said = |server: std::process::Child| {
            let output = server.wait_with_output().expect("it ends with its client");
            String::from_utf8(output.stdout).expect("it speaks ASCII")
        };
        let server = serve();
        let native = case.natively(&["sh", "-c", &client]);
        let native_server = said(server);
        let server = serve();
        let ours = case.through_culvert(&["sh", "-c", &client]);
        let server = said(server);
        assert_eq!(native.text(), ours.text(), "{}", ours.report());
        assert_eq!(native_server, server, "{}", ours.report());
        assert!(server.contains("5000 bytes"), "{server}");
    }
}
