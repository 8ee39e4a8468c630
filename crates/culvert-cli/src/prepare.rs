//! Making a mount's source ready before the program starts, with a progress bar where that takes
//! time.

use crate::failure::{Failure, path, reason, shown};
use crate::mounts;
use culvert::{Errno, mount::Mount};
use culvert_drivers::{Environment, Progress, Source};
use rustix::fs::Access;
use std::{
    fs,
    io::{IsTerminal, Write, stderr},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How many warnings about one archive are printed; the rest is counted.
const WARNINGS_SHOWN: usize = 10;

/// Builds what the driver of `mount` needs (an archive's index) unless it is there already, prints
/// what the user should know, and returns the mount as it travels. `alone`: to the one server of a
/// kernel mount.
pub fn prepare(mount: &Mount, run_directory: &Path, alone: bool) -> Result<Mount, Failure> {
    let mut mount = mount.clone();
    crate::sync::ready(&mut mount)?;
    crate::cruise::complete(&mut mount, &|name| std::env::var_os(name))?;
    let source = mount.source.clone();
    let source = path(&source);
    let is_plain = |leaf: &&Mount| {
        let kind = mounts::source_kind(leaf);
        matches!(kind, Some(Source::Directory | Source::Name))
    };
    let is_indexed = !mount.leaves().iter().all(is_plain);
    // A process that has become another user may still have the home of the one before.
    let cache = is_indexed.then(cache_directory).flatten().filter(|cache| {
        let own = cache.parent().unwrap_or(cache);
        rustix::fs::access(own, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    });
    crate::extfs::unpack(&mut mount, cache.as_deref(), run_directory)?;
    let environment = Environment {
        cache_directory: cache.as_ref().map(|path| path.as_os_str().as_bytes()),
        run_directory: Some(run_directory.as_os_str().as_bytes()),
        alone,
        ..Environment::default()
    };
    let mut bar = Bar::new(source);
    let prepared =
        culvert_drivers::prepare(&mount, &environment, &mut |progress| bar.show(progress));
    bar.end(prepared.is_ok());
    let prepared = prepared.map_err(|error| refused(&mount, &error))?;
    for warning in prepared.warnings.first.iter().take(WARNINGS_SHOWN) {
        eprintln!("culvert: warning: {}: {warning}", shown(source));
    }
    let more = prepared
        .warnings
        .total
        .saturating_sub(WARNINGS_SHOWN as u64);
    if more > 0 {
        eprintln!("culvert: warning: {}: {more} more", shown(source));
    }
    Ok(prepared.mount)
}

/// The driver of `mount` cannot serve its source, by `error`.
fn refused(mount: &Mount, error: &culvert::Error) -> Failure {
    let why = error.to_string();
    let failure = Failure::new(format!("{}: {why}", shown(path(&mount.source))));
    let driver = &mount.driver;
    let has = |option| culvert_drivers::find(driver).is_ok_and(|info| info.options.has(option));
    // What a layer says begins with its name.
    let layer = why
        .strip_prefix("layer ")
        .and_then(|rest| rest.split_once(':'));
    match error.errno() {
        Errno::EACCES => failure.advice("give one that you may read"),
        _ if why.starts_with("there is no layer") => {
            failure.advice("what each does: culvert drivers")
        }
        Errno::EINVAL => match layer {
            Some((layer, _)) => failure.advice(format!("its options: culvert drivers {layer}")),
            None => failure.advice(format!(
                "what it serves, and its options: culvert drivers {driver}"
            )),
        },
        Errno::EIO if has("damaged") => failure.advice(
            "the option damaged takes what can be read of a tar, cpio or ar once it is \
            decompressed",
        ),
        _ => failure,
    }
}

/// Where indexes are kept: `$XDG_CACHE_HOME/culvert/index`, else `~/.cache/culvert/index`. None
/// where there is no home: then they live as long as the run.
pub fn cache_directory() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let ours = base.join("culvert");
    // The driver makes the last directory; those before it are made here, as the base directory
    // specification wants them (0700).
    use std::os::unix::fs::DirBuilderExt;
    let _ = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&ours);
    Some(ours.join("index"))
}

/// Copies a source that lies on a mount of the run that we are in to the run directory: drivers
/// read files of the kernel, not of other mounts.
pub fn copy_source(mount: &mut Mount, run_directory: &Path, number: usize) -> Result<(), Failure> {
    let source = path(&mount.source);
    let copy = run_directory.join(format!("source.{number}"));
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "cannot copy {} to {}: {}",
            shown(source),
            shown(&copy),
            reason(&error)
        ))
        .advice("an archive that lies on a mount is copied to the run directory first")
    };
    fs::copy(source, &copy).map_err(failed)?;
    let modified = fs::metadata(source)
        .and_then(|found| found.modified())
        .map_err(failed)?;
    fs::File::options()
        .write(true)
        .open(&copy)
        .and_then(|file| file.set_modified(modified))
        .map_err(failed)?;
    mount.source = copy.into_os_string().into_vec();
    Ok(())
}

/// The progress bar: on a terminal redrawn in place, elsewhere one line when all is done. What is
/// quick shows nothing.
struct Bar {
    name: String,
    terminal: bool,
    began: Instant,
    drawn: Option<Instant>,
    last: Progress,
}

impl Bar {
    /// Nothing is shown before this time.
    const QUIET: Duration = Duration::from_millis(300);
    /// Shortest time between two drawings.
    const FRAME: Duration = Duration::from_millis(100);
    /// Cells of the bar.
    const WIDTH: u64 = 30;

    fn new(source: &Path) -> Self {
        Self {
            name: shown(source.file_name().unwrap_or(source.as_os_str())),
            terminal: stderr().is_terminal(),
            began: Instant::now(),
            drawn: None,
            last: Progress { done: 0, total: 0 },
        }
    }

    fn show(&mut self, progress: Progress) {
        self.last = progress;
        let now = Instant::now();
        let due = match self.drawn {
            None => now - self.began >= Self::QUIET,
            Some(drawn) => now - drawn >= Self::FRAME,
        };
        if due {
            self.drawn = Some(now);
            if self.terminal {
                let _ = write!(stderr(), "\r{}\x1b[K", line(&self.name, progress));
            }
        }
    }

    fn end(&mut self, complete: bool) {
        if self.drawn.is_none() {
            return;
        }
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        if complete {
            let seconds = self.began.elapsed().as_secs_f64();
            eprintln!(
                "culvert: indexed {} ({}) in {seconds:.1} s",
                self.name,
                size(self.last.total)
            );
        }
    }
}

/// `indexing NAME [=====>    ] 42 % of 1.2 GB`.
fn line(name: &str, progress: Progress) -> String {
    let Progress { done, total } = progress;
    let (done, total) = (u128::from(done.min(total)), u128::from(total.max(1)));
    let cells = (done * u128::from(Bar::WIDTH) / total) as usize;
    let bar: String = "=".repeat(cells) + &" ".repeat(Bar::WIDTH as usize - cells);
    let percent = done * 100 / total;
    format!(
        "culvert: indexing {name} [{bar}] {percent} % of {}",
        size(progress.total)
    )
}

/// A size in the units that people read.
fn size(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ if value < 9.95 => format!("{value:.1} {}", units[unit]),
        _ => format!("{value:.0} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, want) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (12_345_678, "12 MB"),
            (999_999, "1.0 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }

    #[test]
    fn the_bar_never_overflows() {
        for (done, total) in [
            (0, 0),
            (0, 10),
            (5, 10),
            (10, 10),
            (11, 10),
            (u64::MAX, u64::MAX),
        ] {
            let drawn = line("x", Progress { done, total });
            let bar = &drawn[drawn.find('[').unwrap()..=drawn.find(']').unwrap()];
            assert_eq!(bar.len() as u64, Bar::WIDTH + 2, "{drawn}");
        }
        assert!(line("x", Progress { done: 5, total: 10 }).contains(" 50 %"));
    }
}
