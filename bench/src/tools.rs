//! Running and timing commands.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Where everything of this run lies: a directory in memory, so that no disk is measured.
pub struct Place {
    /// The directory, removed at the end.
    pub directory: PathBuf,
    /// The `culvert` command.
    pub culvert: String,
    /// Where it lies, on a disk as what is installed does: the kernel maps files in memory by
    /// smaller pages. Removed at the end.
    installed: PathBuf,
}

impl Place {
    /// Makes the directory and finds the command.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let directory = parent.join(format!("culvert-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory in memory can be written");
        let culvert = std::env::var("CULVERT_BIN").unwrap_or_else(|_| {
            let beside = std::env::current_exe()
                .expect("the running program has a name")
                .with_file_name("culvert");
            beside
                .to_str()
                .expect("the target directory has a plain name")
                .to_owned()
        });
        let installed = match disk() {
            Some(parent) => {
                Path::new(parent).join(format!("culvert-bench-{}-installed", std::process::id()))
            }
            None => directory.join("installed"),
        };
        let place = Self {
            culvert: installed.join("culvert").display().to_string(),
            installed,
            directory,
        };
        // Where every user can start it.
        sh(&format!(
            "mkdir -p {1} && chmod 755 {0} {1} && cp {culvert} $(dirname {culvert})/culvert-full \
            $(dirname {culvert})/libculvert.so {1}/ && chmod 755 {1}/*",
            place.path(""),
            place.installed.display()
        ));
        place
    }

    /// `name` in the directory, as text.
    pub fn path(&self, name: &str) -> String {
        self.directory
            .join(name)
            .to_str()
            .expect("a plain name")
            .to_owned()
    }

    /// One of `bench/programs`, compiled.
    pub fn program(&self, name: &str) -> String {
        let output = self.path(&format!("bench-{name}"));
        if !Path::new(&output).exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("programs/{name}.c"));
            sh(&format!("cc -O2 -o {output} {}", source.display()));
        }
        output
    }

    /// A command that runs `command` through culvert with the archive on the target `mnt`.
    pub fn through(&self, archive: &str, command: &str) -> String {
        format!(
            "{} run -v {archive}:{} -- {command}",
            self.culvert,
            self.path("mnt")
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = Command::new("rm");
        all.arg("-rf").args([&self.directory, &self.installed]);
        let _ = all.arg(runtime()).status();
    }
}

/// The worker's XDG_RUNTIME_DIR, where root measures. Removed at the end.
pub fn runtime() -> String {
    format!("/run/culvert-bench-{}", std::process::id())
}

/// A directory for what is not in memory.
pub fn disk() -> Option<&'static str> {
    ["/var/tmp", "/tmp"].into_iter().find(|parent| {
        Path::new(parent).is_dir()
            && !["tmpfs", "ramfs"].contains(&sh(&format!("stat -fc %T {parent}")).trim())
    })
}

/// Runs a shell command that must succeed, and gives its output.
pub fn sh(command: &str) -> String {
    attempt(command).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs a shell command, and gives its output, or the command with all that it said.
pub fn attempt(command: &str) -> Result<String, String> {
    let output = shell(command).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!(
        "{command}\n{said}{}",
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The numbers that a command prints.
pub fn numbers(command: &str) -> Vec<f64> {
    sh(command)
        .split_whitespace()
        .map(|word| {
            word.parse()
                .unwrap_or_else(|_| panic!("{command}: {word} is no number"))
        })
        .collect()
}

/// Seconds that a command takes; its output goes nowhere.
pub fn seconds(command: &str) -> f64 {
    let start = Instant::now();
    let status = shell(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("there is a shell");
    let taken = start.elapsed().as_secs_f64();
    assert!(status.success(), "{command}: {status}");
    taken
}

/// Says on a terminal what is being measured, in a line that the next takes; nothing when `what` is
/// empty.
pub fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    }
}

/// Whether a command succeeds.
pub fn succeeds(command: &str) -> bool {
    shell(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A shell with `command`. Cargo's search path for libraries is not the measured programs' own:
/// ld.so would look in it first, for each library in dozens of directories.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("LC_ALL", "C")
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null());
    shell
}

/// The middle of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of what comes natively, and that plus the median of the differences of neighbours:
/// what slows the whole machine for a while does not count.
pub fn pair(rounds: usize, native: &dyn Fn() -> f64, ours: &dyn Fn() -> f64) -> (f64, f64) {
    let (mut natives, mut added) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (before, between, after) = (native(), ours(), native());
        natives.extend([before, after]);
        added.push(between - (before + after) / 2.0);
    }
    let native = median(natives);
    (native, native + median(added))
}

/// Medians of several ways to take a measure, taken in turn.
pub fn in_turn<const N: usize>(rounds: usize, ways: [&dyn Fn() -> f64; N]) -> [f64; N] {
    let mut taken = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (way, values) in ways.iter().zip(&mut taken) {
            values.push(way());
        }
    }
    taken.map(median)
}
