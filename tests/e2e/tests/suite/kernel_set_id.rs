//! Rights on kernel mounts whose kernel does not name the caller, or keeps sizes and times itself:
//! what changes of bytes leave of set-user-ID, and what who only may write a file may do.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, not_tested};

/// What `program` prints about a mount made with `words`, or about a plain directory; through a
/// mount of that with other owners where `again`. None: that cannot be.
fn said(name: &str, program: &str, words: Option<&[&str]>, again: bool) -> Option<String> {
    let memory = words.is_some_and(|words| words.contains(&"memory"));
    let place = match words {
        None => Mounted::place(name),
        Some(words) => {
            let words: Vec<_> = ["--allow-other", "-o", "suid"]
                .iter()
                .chain(words)
                .copied()
                .collect();
            match memory {
                true => Mounted::of(name, &words, "memory"),
                false => Mounted::new(name, &words),
            }
        }
    };
    let seen = place.text(if words.is_some() { "target" } else { "source" });
    let kept = match memory {
        true => seen.clone(),
        false => place.text("source"),
    };
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
    let script = match again {
        false => format!("chmod 777 {seen}; exec python3 {programs}/{program} {seen} {kept}"),
        true => {
            let again = place.text("again");
            script!(
                "kernel_set_id/said.sh",
                seen,
                again,
                programs,
                program,
                kept
            )
        }
    };
    let done = shell(&script);
    if done.status == "exit 77" {
        return None;
    }
    assert_eq!(done.status, "exit 0", "{name} {}", done.report());
    Some(done.text())
}

/// The mode at the end of a line of the program, with what stands before and behind it.
fn parts(line: &str) -> (&str, u32, &str) {
    let (before, state) = line.rsplit_once(", ").expect("state");
    let (mode, capability) = state.split_once(' ').expect("mode");
    let mode = u32::from_str_radix(mode, 8).expect("octal");
    (before, mode, capability)
}

/// Whoever changes the bytes of a program takes off it what he would natively, by each way; more
/// may go, as FUSE does not always say who it is, but no less.
#[test]
fn no_change_of_bytes_leaves_more_rights_than_natively() {
    if !possible() {
        return;
    }
    let program = "killed_bits.py";
    let native = said("killed-native", program, None, false).expect("a directory");
    assert!(native.lines().count() > 100, "{native}");
    for (name, words) in [
        ("plain", &[][..]),
        ("driven", &["-o", "driven"]),
        ("cached", &["--without", "passthrough"]),
        ("truncating", &["--with", "atomic-o-trunc"]),
        ("back", &["--with", "writeback-cache"]),
        ("memory", &["-t", "memory"]),
        ("idmapped", &["--with", "idmap"]),
        ("idmapped-driven", &["--with", "idmap", "-o", "driven"]),
        (
            "idmapped-cached",
            &["--with", "idmap", "--without", "passthrough"],
        ),
        (
            "idmapped-back",
            &["--with", "idmap", "--with", "writeback-cache"],
        ),
        ("idmapped-memory", &["--with", "idmap", "-t", "memory"]),
    ] {
        let again = words.contains(&"idmap");
        let Some(ours) = said(&format!("killed-{name}"), program, Some(words), again) else {
            not_tested("no idmapped mounts");
            continue;
        };
        assert_eq!(
            native.lines().count(),
            ours.lines().count(),
            "{name} {ours}"
        );
        for (native, ours) in native.lines().zip(ours.lines()) {
            // A driver does not know whether who writes is in the file's group (`culvert::File`).
            if words.contains(&"memory") && native.contains(" of 2767") {
                continue;
            }
            let (expected, met) = (parts(native), parts(ours));
            let capability = met.2 == expected.2 || met.2 == "No data available";
            assert!(
                met.0 == expected.0 && met.1 & !expected.1 == 0 && capability,
                "{name}: {ours}; natively: {native}"
            );
        }
    }
}

/// Who may write a file truncates it, sets its times to the present, and appends to what may only
/// be appended to, as natively; and may no more.
#[test]
fn who_may_write_may_truncate_what_is_written_back() {
    if !possible() || !installed("chattr") {
        return;
    }
    let program = "written_by_others.py";
    let native = said("others-native", program, None, false).expect("a directory");
    assert!(native.lines().count() > 100, "{native}");
    for (name, words) in [
        ("plain", &[][..]),
        ("cached", &["--without", "passthrough"]),
        ("back", &["--with", "writeback-cache"]),
        (
            "back-driven",
            &["--with", "writeback-cache", "-o", "driven"],
        ),
        ("back-restart", &["--with", "writeback-cache", "--restart"]),
    ] {
        let ours = said(&format!("others-{name}"), program, Some(words), false);
        assert_eq!(ours.as_deref(), Some(&*native), "{name}");
    }
}
