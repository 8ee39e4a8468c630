//! Kernel mounts that are mounted again with other owners (idmapped mounts, `--with idmap`): each
//! user has the rights and makes the files that he would natively.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::not_tested;

/// What users 0, 1000 (2 in the file system) and 3 (nobody there) may do, and whose the results
/// are.
const TWO_USERS: &str = script!(part "kernel_idmapped/two_users.sh");

fn run(name: &str, words: Option<&[&str]>) -> Option<String> {
    let place = match words {
        Some(words) => {
            let mut all = vec!["--allow-other", "--with", "idmap"];
            all.extend(words);
            Mounted::new(name, &all)
        }
        None => Mounted::place(name),
    };
    let there = place.text("source");
    let mounted = match words {
        Some(_) => place.text("target"),
        None => there.clone(),
    };
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    let again = place.text("again");
    let done = shell(&script!(
        "kernel_idmapped/run.sh",
        again,
        program,
        mounted,
        there,
        replace = TWO_USERS.replace('\'', "'\\''")
    ));
    match done.status.as_str() {
        "exit 77" => None,
        _ => Some(format!("{}{}", done.text(), done.errors())),
    }
}

#[test]
fn each_user_is_who_he_is_there() {
    if !possible() {
        return;
    }
    let Some(native) = run("idmapped-native", None) else {
        not_tested("the file system below has no idmapped mounts");
        return;
    };
    assert!(
        native.contains("1000 1000 644 5") && native.contains("f 2 2 640"),
        "{native}"
    );
    for (name, words) in [
        ("idmapped", &[][..]),
        ("idmapped-driven", &["-o", "driven"]),
        ("idmapped-cached", &["--without", "passthrough"]),
    ] {
        let ours = run(name, Some(words));
        assert_eq!(ours.as_ref(), Some(&native), "{name}");
    }
}

/// Only where it was asked for: the server would not know whom it acts for.
#[test]
fn not_without_being_asked_for() {
    if !possible() {
        return;
    }
    let program = format!("{}/programs/idmapped.py", env!("CARGO_MANIFEST_DIR"));
    let mount = Mounted::new("idmapped-not", &["--allow-other"]);
    let (target, again) = (mount.text("target"), mount.text("again"));
    let done = shell(&format!(
        "mkdir -p {again}; exec unshare -m python3 {program} {target} {again}"
    ));
    assert!(
        done.errors().contains("Invalid argument"),
        "{}",
        done.report()
    );
    let listed = culvert(&["mount", "--with", "list"]);
    assert!(listed.text().contains("idmap"), "{}", listed.report());
}
