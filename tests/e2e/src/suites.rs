//! Test suites of other people, see `scripts/test-suites`.

use crate::world::world;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program `name` (`pjdfstest`, `fsx`), installed at first use, where every user can run it.
pub fn suite(name: &str) -> PathBuf {
    tools().join("bin").join(name)
}

/// The sources of a real project (`lz4-sys`), as they are published; the directory of all for the
/// empty name.
pub fn sources(name: &str) -> PathBuf {
    tools().join("vendor").join(name)
}

/// A copy of what the script installs, in the base directory.
fn tools() -> &'static Path {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-suites");
        let done = Command::new(&script)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success(),
            "{} failed:\n{said}",
            script.display()
        );
        let built = PathBuf::from(String::from_utf8_lossy(&done.stdout).trim_end());
        let ours = world().path("tools");
        fs::create_dir(&ours).expect("the base directory is ours");
        let copied = Command::new("cp")
            .args(["-r", "--no-preserve=ownership"])
            .args([built.join("bin"), built.join("vendor")])
            .arg(&ours)
            .status();
        assert!(
            copied.is_ok_and(|status| status.success()),
            "no copy of {}",
            built.display()
        );
        let opened = Command::new("chmod")
            .args(["-R", "a+rX"])
            .arg(&ours)
            .status();
        assert!(opened.is_ok_and(|status| status.success()));
        ours
    })
}
