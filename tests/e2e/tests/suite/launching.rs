//! The first stage of the command, which needs no libc: it launches what is plain, and executes the
//! whole command for all else. Nobody can tell the difference but by the time.

use crate::trust::shell;
use culvert_e2e::{installed, not_tested};

/// Launches of each kind, and which of them the first stage does: those that it judged wrongly
/// would end otherwise, those that it left would be slow.
#[test]
fn what_is_plain_needs_no_libc() {
    if !installed("strace") {
        not_tested("strace");
        return;
    }
    let script = script!("launching/what_is_plain.sh");
    if let Some(done) = shell("launching-plain", script) {
        let expected = include_str!("launching.txt");
        assert_eq!(done.text(), expected, "{}", done.report());
    }
}

#[test]
fn both_stages_say_the_same() {
    let script = script!("launching/both_stages_say_the_same.sh");
    if let Some(done) = shell("launching-words", script) {
        assert_eq!(done.text(), "done\n", "{}", done.report());
    }
}

#[test]
fn the_program_inherits_the_same() {
    let script = script!("launching/the_program_inherits_the_same.sh");
    if let Some(done) = shell("launching-inherits", script) {
        assert_eq!(done.text(), "done\n", "{}", done.report());
    }
}

/// The first stage is static, but what it executes sees the mounts.
#[test]
fn a_run_in_a_strict_run_joins_it() {
    let script = script!("launching/a_run_in_a_strict_run.sh");
    if let Some(done) = shell("launching-nested", script) {
        assert_eq!(done.text(), "outer\ninner\nouter\n0\n", "{}", done.report());
    }
}

#[test]
fn other_rights_are_refused() {
    let script = script!("launching/other_rights_are_refused.sh");
    if let Some(done) = shell("launching-rights", script) {
        let refused = |what: &str, bit: &str| {
            format!(
                "culvert: culvert must not be a set-{what}-ID program\n         take the bit off \
                 (chmod {bit}); users mount by fusermount3\n125\n"
            )
        };
        let missing = "culvert: the command's other part cannot be executed: No such file or \
                       directory; it is W/4755/culvert-full or \
                       W/lib/culvert/culvert-full\n         \
                       install it there, or build both: cargo build --release\n125\n";
        let expected = [
            refused("user", "u-s"),
            refused("group", "g-s"),
            missing.into(),
        ]
        .concat();
        assert_eq!(done.text(), expected, "{}", done.report());
    }
}
