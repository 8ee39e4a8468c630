//! Test suites of other people, see `scripts/test-suites`.

use crate::world::{open_to_all, world};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program `name` (`pjdfstest`, `fsx`), installed at first use, where every user can run it.
pub fn suite(name: &str) -> PathBuf {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-suites");
        let done = Command::new(&script)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        assert!(
            done.status.success(),
            "{} failed:\n{}",
            script.display(),
            String::from_utf8_lossy(&done.stderr)
        );
        let built = String::from_utf8_lossy(&done.stdout).trim_end().to_owned();
        let ours = world().path("bin");
        for entry in fs::read_dir(&built).expect("the script just said so") {
            let from = entry.expect("a directory of ours").path();
            let to = ours.join(from.file_name().expect("a program has a name"));
            fs::copy(&from, &to).expect("the base directory is ours");
            open_to_all(&to);
        }
        ours
    });
    tools.join(name)
}
