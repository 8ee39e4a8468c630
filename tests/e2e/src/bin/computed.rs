//! A kernel mount of a driver by paths whose files are computed when they are read: nobody knows
//! their sizes before. `computed TARGET` prints a line when it is mounted and ends with its input.

use culvert::path::{PathAdapter, PathEntry, PathFileSystem};
use culvert::{Attributes, Caching, Caller, Errno, FileKind, OpenFlags, Result};
use culvert_server::Settings;
use culvert_server::mounting::{self, MountIdentity, MountPoint, Mounting};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `lines` holds the numbers up to 20,000, `count` how often it was opened before.
#[derive(Default)]
struct Computed {
    opens: AtomicU64,
}

impl PathFileSystem for Computed {
    type Handle = Vec<u8>;

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        match path {
            b"" => Ok(Attributes::new(FileKind::Directory, 0o555)),
            // The size is not known: 0.
            b"lines" | b"count" => Ok(Attributes::new(FileKind::Regular, 0o444)),
            _ => Err(Errno::ENOENT.into()),
        }
    }

    fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
        Ok(["lines", "count"]
            .map(|name| PathEntry::new(name, FileKind::Regular))
            .to_vec())
    }

    fn open(&self, _: &Caller<'_>, path: &[u8], _: OpenFlags) -> Result<Vec<u8>> {
        Ok(match path {
            b"lines" => (1..=20_000)
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into_bytes(),
            _ => format!("{}\n", self.opens.fetch_add(1, Relaxed)).into_bytes(),
        })
    }

    fn read(&self, content: &Vec<u8>, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| content.get(offset..))
            .unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn caching(&self, _: &Vec<u8>) -> Caching {
        Caching::Never
    }
}

fn serve(target: &Path) -> std::result::Result<(), String> {
    let target = target.canonicalize().map_err(|error| error.to_string())?;
    let place = MountPoint::open(&target).map_err(|error| error.to_string())?;
    let mounting = Mounting {
        read_only: true,
        ..Mounting::new("computed", &place)
    };
    let driver = Box::new(PathAdapter::new(Computed::default()));
    let told = |which: &MountIdentity| {
        println!("mounted");
        let which = *which;
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            if let Err(failed) = mounting::unmount(&which, true) {
                eprintln!("computed: {failed}");
            }
        });
    };
    culvert_server::serve(driver, &mounting, Settings::default(), told)
}

fn main() -> ExitCode {
    let Some(target) = std::env::args_os().nth(1) else {
        eprintln!("usage: computed TARGET");
        return ExitCode::from(2);
    };
    match serve(Path::new(&target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("computed: {error}");
            ExitCode::FAILURE
        }
    }
}
