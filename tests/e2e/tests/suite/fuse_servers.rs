//! FUSE servers as they are, for a run, without /dev/fuse, fusermount or a kernel mount.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Finished, installed, world};
use std::{fs, path::PathBuf};

/// Directories for one test: the server's source and the mount's target.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let base = world().claim("fuse", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        fs::write(base.join("source/file"), "hello\n").expect("ours");
        fs::write(base.join("source/big"), vec![b'x'; 3_000_000]).expect("ours");
        Self { base }
    }

    fn text(&self, name: &str) -> String {
        self.base.join(name).display().to_string()
    }

    fn run(&self, kind: &str, script: &str) -> Finished {
        let (source, target) = (self.text("source"), self.text("target"));
        let mount = format!("{kind},source={source},target={target}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", script])
    }
}

#[test]
fn files_of_a_fuse_server_are_read_and_changed() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("bindfs");
    let script = format!(
        "cd {}; ls; cat file; cmp big ../source/big; echo new > made; mv made moved; cat moved; \
         mkdir d; (cd d; echo below > one); cat d/one; rm -r d moved; ls",
        place.text("target")
    );
    let done = place.run("type=fuse.bindfs", &script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(
        done.text(),
        "big\nfile\nhello\nnew\nbelow\nbig\nfile\n",
        "{}",
        done.report()
    );
    assert!(!place.base.join("source/moved").exists());
}

#[test]
fn a_server_that_does_not_start_is_told_with_its_last_lines() {
    let place = Place::new("failing");
    let run = |command: &str| {
        let kind = format!("type=fuse,start-timeout=1,\"command={command}\"");
        place.run(&kind, "echo ran")
    };
    let done = run("sh -c 'echo it is broken >&2; exit 3'");
    assert_eq!(done.status, "exit 125", "{}", done.report());
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.contains("status 3") && told.contains("it is broken"),
        "{told}"
    );
    let done = run("sleep 100");
    assert_eq!(done.status, "exit 125", "{}", done.report());
    assert!(done.text().is_empty());
}

#[test]
fn a_server_that_dies_is_named_and_its_files_are_errors() {
    if !installed("bindfs") {
        return;
    }
    let place = Place::new("dying");
    let (source, target) = (place.text("source"), place.text("target"));
    let script =
        format!("cat {target}/file; pkill -9 -f '^/[a-z/]*bindfs {source} '; cat {target}/file");
    let done = place.run("type=fuse.bindfs", &script);
    assert_eq!(done.status, "exit 1", "{}", done.report());
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("not connected"), "{told}");
    // The guardian ends after the program; the brackets keep the shell itself out of the list.
    let left = shell(&format!(
        "for i in $(seq 100); do pgrep -f '[b]indfs {source}' || {{ echo none; exit; }}; sleep .1; done"
    ));
    assert!(left.text().ends_with("none\n"), "{}", left.report());
}
