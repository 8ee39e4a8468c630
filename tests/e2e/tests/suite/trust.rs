//! Two users who would like to decide what the other one's programs see: a run directory is
//! believed only where its user alone can have filled it.

use culvert_e2e::{Case, Finished, User, installed, not_tested, world};

/// A script as root in a mount namespace of its own, with an empty /dev/shm. In it `$culvert` is
/// the command and `$lib` its library; `as UID COMMAND...` runs it as that user; `$real` is an
/// empty directory and `$evil` one with the file `f`, both open to all; `$look` is a program that
/// shows what is in `$real`; `forged DIRECTORY` fills a directory of the user 65534 as a run
/// directory that shows `$evil` at `$real`.
pub fn shell(name: &str, script: &str) -> Option<Finished> {
    if !world().is_root() || world().only_native || !installed("setpriv") {
        not_tested("other users: the tests do not run as root");
        return None;
    }
    let case = Case::new(name, User::Me);
    let culvert = world().culvert.display();
    let all = script!(
        "trust/shell-all.sh",
        culvert,
        with_file_name = world().culvert.with_file_name("libculvert.so").display(),
        script
    );
    let done = case.natively(&["unshare", "-m", "bash", "-c", &all]);
    if done.status == "exit 77" {
        not_tested("no mount namespace");
        return None;
    }
    Some(done)
}

/// What `CULVERT_RUN` names is another user's, open to all or not, a link, a FIFO or has one, or is
/// not there any more: it is ignored and said in one line, by root and by a user, and nobody waits.
/// With a library that is loaded by hand nothing changes either.
#[test]
fn a_run_of_another_user_is_ignored() {
    let script = script!("trust/a_run_of_another_user_is_ignored.sh");
    let Some(done) = shell("trust-foreign", script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}

/// The run of the user's own is found by no other way than its own: a link to it, or a directory on
/// the way that is one, could lead elsewhere later.
#[test]
fn no_link_leads_to_a_run() {
    let script = script!("trust/no_link_leads_to_a_run.sh");
    let Some(done) = shell("trust-links", script) else {
        return;
    };
    assert_eq!(done.text(), "evil\nreal\n", "{}", done.report());
}

/// In a user namespace that does not map them all users have one number. The own run goes on,
/// another's is none.
#[test]
fn a_user_who_is_not_mapped_owns_nothing_by_number() {
    let script = script!("trust/a_user_who_is_not_mapped_owns_nothing_by_number.sh");
    let Some(done) = shell("trust-namespace", script) else {
        return;
    };
    assert_eq!(done.text(), "real\nreal\nevil\nevil\n", "{}", done.report());
}

/// A program that gets other rights is not told of the run: not by the command, not by a program in
/// it, not by a variable that somebody puts there.
#[test]
fn programs_with_other_rights_are_not_told_of_the_run() {
    let script = script!("trust/programs_with_other_rights_are_not_told_of_the_run.sh");
    let Some(done) = shell("trust-privileged", script) else {
        return;
    };
    assert_eq!(done.text(), "done\n", "{}", done.report());
}

/// Who makes the name of another user's base first, as a directory, link, file or FIFO, keeps
/// nobody out: that user finds another one, and finds it again.
#[test]
fn a_base_that_is_taken_keeps_nobody_out() {
    let script = script!("trust/a_base_that_is_taken_keeps_nobody_out.sh");
    let Some(done) = shell("trust-taken", script) else {
        return;
    };
    let mut expected = String::new();
    for uid in ["0", "65533"] {
        for kind in ["mkdir", "link", "file", "fifo"] {
            expected += &format!("evil\nevil\n{uid} {kind} 1\n");
        }
    }
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// Root uses no XDG_RUNTIME_DIR that is another user's, or that another user could put another
/// directory in the place of; its own it does.
#[test]
fn root_uses_no_foreign_runtime_directory() {
    let script = script!("trust/root_uses_no_foreign_runtime_directory.sh");
    let Some(done) = shell("trust-runtime", script) else {
        return;
    };
    let expected = "evil\ntheirs ours\nevil\ntheirs/ours\nevil\nours culvert culvert-libraries\n";
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A descriptor that another user sends, of a file of his that has the path of a shadow in his
/// mount namespace, stands for no file of the run.
#[test]
fn a_path_that_another_user_made_stands_for_nothing() {
    let script = script!(
        "trust/a_path_that_another_user_made_stands_for_nothing.sh",
        borrowed = world().program("borrowed").display()
    );
    let Some(done) = shell("trust-sent", &script) else {
        return;
    };
    let own = |way| format!("of user 65533: written\nsecret\n{way} 0\n");
    let expected = [own("file"), own("path"), own("fifo")].concat();
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A process that has become another user cannot end root's run: it gives up the lock that all of
/// them share, and the next run sweeps nothing that is used.
#[test]
fn another_user_cannot_give_up_the_lock_of_the_run() {
    let script = script!(
        "trust/another_user_cannot_give_up_the_lock_of_the_run.sh",
        program = world().program("borrowed-static").display()
    );
    let Some(done) = shell("trust-unlocked", &script) else {
        return;
    };
    // The run itself and the one inside; then the last alone.
    assert_eq!(done.text(), "kept\n2\n1\n", "{}", done.report());
}
