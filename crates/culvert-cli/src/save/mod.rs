//! Directories as archives: `culvert save`, and the option `save` of archives.
//!
//! An archive with `save` is an overlay with a file system in memory above it, and the program of
//! the run is this command, which starts the other one and saves what is there when it has ended.
//! The archive below is a second name of the file, which stays when the first one is replaced:
//! programs that are started later read it by that.

mod zip;

use crate::{
    failure::{Failure, path, reason, shown},
    own_path::own_path,
};
use culvert::mount::{Request, escape, parse_mount};
use culvert_sys::process::{kill, set_ignored, sigprocmask, sigwait};
use culvert_sys::raw::general::{SIG_BLOCK, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use rustix::fs::{Gid, OFlags, Uid};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::ffi::{OsStrExt, OsStringExt},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// `culvert save`.
#[derive(Debug)]
pub struct Save {
    /// The directory.
    pub directory: PathBuf,
    /// The archive that is made, or replaced.
    pub archive: PathBuf,
}

/// How an archive is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// By tar(1) with this option.
    Tar(Option<&'static str>),
    /// By [`zip`].
    Zip,
}

/// How each format is made, by what the driver calls it and by the endings of names.
const FORMATS: &[(&str, How, &[&str])] = &[
    ("tar", How::Tar(None), &[".tar"]),
    ("tar, gzip", How::Tar(Some("--gzip")), &[".tar.gz", ".tgz"]),
    (
        "tar, zstd",
        How::Tar(Some("--zstd")),
        &[".tar.zst", ".tzst"],
    ),
    ("tar, xz", How::Tar(Some("--xz")), &[".tar.xz", ".txz"]),
    (
        "tar, bzip2",
        How::Tar(Some("--bzip2")),
        &[".tar.bz2", ".tbz2", ".tbz"],
    ),
    ("tar, lzip", How::Tar(Some("--lzip")), &[".tar.lz", ".tlz"]),
    ("tar, lzma", How::Tar(Some("--lzma")), &[".tar.lzma"]),
    (
        "tar, compress",
        How::Tar(Some("--compress")),
        &[".tar.Z", ".taz"],
    ),
    ("zip", How::Zip, &[".zip"]),
];

/// The word before what [`after`] gets.
pub const AFTER: &str = "save-after";

/// A command, and what is saved when it has ended.
#[derive(Debug)]
pub struct After {
    pub save: Save,
    /// The archive's second name, which is removed.
    pub kept: PathBuf,
    pub command: Vec<OsString>,
}

/// What names of files that are being written begin with, behind a dot and the archive's.
const PART: &str = ".culvert-";

/// A file that is empty for longer is nobody's.
const NEW: Duration = Duration::from_secs(60);

fn failed(what: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{what} {}: {}", shown(file), reason(error)))
}

/// Refuses where tar(1), or what it compresses with, is missing.
fn expect_programs(how: How) -> Result<(), Failure> {
    let How::Tar(compression) = how else {
        return Ok(());
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
    let names = [
        Some("tar"),
        compression.map(|it| it.trim_start_matches('-')),
    ];
    match names.into_iter().flatten().find(|name| !is_there(name)) {
        Some(name) => Err(
            Failure::new(format!("{name} is not there, which saves archives"))
                .advice(format!("install {name}")),
        ),
        None => Ok(()),
    }
}

/// How an archive is made like the one that is there, or of that name.
fn how(archive: &Path) -> Result<How, Failure> {
    let there = archive.metadata().is_ok_and(|found| found.len() > 0);
    let found = match there {
        true => {
            let kind = culvert_drivers::archive::detect(archive.as_os_str().as_bytes());
            let kind = kind.map_err(|error| {
                Failure::new(format!(
                    "{} is there and no archive: {error}",
                    shown(archive)
                ))
                .advice("it is left alone; give another name")
            })?;
            // A program in front of a zip would be lost.
            let is_whole = kind != "zip" || starts_as_zip(archive);
            (FORMATS.iter()).find(|(known, ..)| *known == kind && is_whole)
        }
        false => {
            let name = archive.as_os_str().as_bytes();
            let fits = |ending: &&str| name.ends_with(ending.as_bytes());
            FORMATS
                .iter()
                .find(|(.., endings)| endings.iter().any(fits))
        }
    };
    found.map(|(_, how, _)| *how).ok_or_else(|| {
        Failure::new(format!(
            "{}: archives of this kind are not made",
            shown(archive)
        ))
        .advice("there are zip, tar and, by its name, tar.gz, .zst, .xz, .bz2, .lz, .lzma and .Z")
    })
}

/// Whether the file has nothing in front of its first member, or of the end of an empty archive.
fn starts_as_zip(archive: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(archive).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && matches!(&start, b"PK\x03\x04" | b"PK\x05\x06")
}

/// Where the archive lies really, its directory and its name there.
fn place(archive: &Path) -> Result<(PathBuf, PathBuf, OsString), Failure> {
    let real = match fs::canonicalize(archive) {
        Ok(real) => real,
        // A link that leads nowhere is left alone.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !archive.is_symlink() => {
            std::path::absolute(archive).map_err(|error| failed("finding", archive, &error))?
        }
        Err(error) => return Err(failed("finding", archive, &error)),
    };
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Failure::new(format!("{} is no archive", shown(archive))));
    };
    Ok((directory.to_owned(), real.clone(), name.to_owned()))
}

/// The name of a file that is to become `name`: one that nobody else has, on no other machine.
fn part(name: &OsStr, ending: &str) -> OsString {
    let mut number = [0; 8];
    let _ = culvert_sys::process::getrandom(&mut number, 0);
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!("{PART}{:016x}{ending}", u64::from_ne_bytes(number)));
    part
}

/// Writes the archive beside the old one, then gives it the name: whoever is killed leaves the old
/// or the new one.
pub fn save(wanted: &Save) -> Result<u8, Failure> {
    fs::read_dir(&wanted.directory)
        .map_err(|error| failed("reading", &wanted.directory, &error))?;
    let (directory, archive, name) = place(&wanted.archive)?;
    let how = how(&archive)?;
    remove_left(&directory, &name);
    let new = directory.join(part(&name, ".new"));
    let made = make(&new).map_err(|error| failed("making", &wanted.archive, &error))?;
    let outcome = write(&wanted.directory, &archive, how, &made, true).and_then(|()| {
        let renamed = fs::rename(&new, &archive);
        renamed.map_err(|error| failed("replacing", &archive, &error))
    });
    if let Err(failure) = outcome {
        let _ = fs::remove_file(&new);
        return Err(failure);
    }
    // The name, too, is there after a crash.
    let synced = File::open(&directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed("writing", &directory, &error))?;
    Ok(0)
}

/// A new file that nobody else may read.
fn make(new: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(0o600).open(new)
}

/// Runs the command, then saves; the status is the command's, or 125 where saving has failed. What
/// a terminal sends reaches the command by itself; what is sent to this process to end it, does by
/// us. Nothing but SIGKILL ends the saving.
pub fn after(wanted: &After) -> Result<u8, Failure> {
    const SENT: u64 = 1 << (SIGHUP - 1) | 1 << (SIGTERM - 1);
    const WAITS: u64 = SENT | 1 << (SIGCHLD - 1);
    let _ = sigprocmask(SIG_BLOCK, WAITS | 1 << (SIGINT - 1) | 1 << (SIGQUIT - 1));
    let name = Path::new(&wanted.command[0]);
    // The library gives what it starts an empty mask.
    let started = Command::new(name).args(&wanted.command[1..]).spawn();
    let status = match started {
        Ok(mut child) => loop {
            if let Some(status) = ended(&mut child) {
                break exit_status(status);
            }
            if let Ok(signal @ (SIGHUP | SIGTERM)) = sigwait(WAITS)
                && let Ok(child) = child.id().try_into()
            {
                let _ = kill(child, signal);
            }
        },
        Err(error) => {
            let _ = fs::remove_file(&wanted.kept);
            eprintln!("culvert: {}: {}", shown(name), reason(&error));
            return Ok(match error.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            });
        }
    };
    for signal in [SIGHUP, SIGTERM, SIGINT, SIGQUIT] {
        let _ = set_ignored(signal, true);
    }
    let saved = save(&wanted.save);
    let saved = saved.map_err(|failure| rescue(wanted, failure));
    let _ = fs::remove_file(&wanted.kept);
    match saved {
        Ok(_) => Ok(status),
        Err(failure) if status == 0 => Err(failure),
        Err(failure) => {
            eprintln!("{failure}");
            Ok(status)
        }
    }
}

/// How the command has ended, if it has.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    child.try_wait().ok().flatten()
}

/// What a shell makes of it.
fn exit_status(status: ExitStatus) -> u8 {
    let by_signal = status.signal().map_or(126, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or(by_signal)).unwrap_or(126)
}

/// The archive could not be saved, by `failure`: what is there is kept as a plain one elsewhere,
/// before the memory that it is in goes.
fn rescue(wanted: &After, failure: Failure) -> Failure {
    let (real, name) = match place(&wanted.save.archive) {
        Ok((_, real, name)) => (real, name),
        Err(_) => (wanted.save.archive.clone(), OsString::from("saved")),
    };
    let mut named = part(&name, ".tar");
    named = OsString::from_vec(named.into_vec().split_off(1));
    let file = std::env::temp_dir().join(named);
    let directory = &wanted.save.directory;
    let made = make(&file).map_err(|error| failed("making", &file, &error));
    let kept = made.and_then(|made| write(directory, &real, How::Tar(None), &made, false));
    match kept {
        Ok(()) => failure.advice(format!("what was changed is in {}", shown(&file))),
        Err(second) => {
            let _ = fs::remove_file(&file);
            eprintln!("{second}");
            failure.advice("what was changed is lost")
        }
    }
}

/// Writes what is in `directory` into `made`, which is to be `archive`; with its owner and mode
/// where it `replaces` that.
fn write(
    directory: &Path,
    archive: &Path,
    how: How,
    made: &File,
    replaces: bool,
) -> Result<(), Failure> {
    let error = |error: io::Error| failed("writing", archive, &error);
    // Who writes it holds it: what nobody holds was left.
    rustix::fs::flock(made, rustix::fs::FlockOperation::LockShared)
        .map_err(|errno| error(errno.into()))?;
    match how {
        How::Tar(compression) => write_tar(directory, archive, compression, made)?,
        How::Zip => {
            let lost = zip::write(directory, made).map_err(|error| {
                let stays = format!("{} stays as it was", shown(archive));
                Failure::new(format!("{stays}: {}", reason(&error)))
            })?;
            if lost.files > 0 {
                eprintln!(
                    "culvert: {}: a zip archive has no place for sockets, extended attributes and \
                     hard links, as of {} ({} files)",
                    shown(archive),
                    lost.first,
                    lost.files
                );
            }
        }
    }
    if !replaces {
        return made.sync_all().map_err(error);
    }
    let mut mode = 0o666 & !umask();
    if let Ok(old) = archive.metadata() {
        mode = old.mode() & 0o7777;
        let own = |user| rustix::fs::fchown(made, user, Some(Gid::from_raw(old.gid())));
        // Of another user's archive it is ours now; what its group may, no other group may.
        if own(Some(Uid::from_raw(old.uid())))
            .or_else(|_| own(None))
            .is_err()
        {
            mode &= !0o070;
        }
    }
    made.set_permissions(fs::Permissions::from_mode(mode))
        .map_err(error)?;
    made.sync_all().map_err(error)
}

/// Has tar(1) write what is in `directory` into `made`.
fn write_tar(
    directory: &Path,
    archive: &Path,
    compression: Option<&str>,
    made: &File,
) -> Result<(), Failure> {
    let error = |error: io::Error| failed("writing", archive, &error);
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file=-", "--format=pax", "--numeric-owner"]);
    tar.args(["--sort=name", "--sparse", "--xattrs", "--xattrs-include=*"]);
    tar.args(compression);
    tar.arg("--directory").arg(directory).arg(".");
    let output = made.try_clone().map_err(error)?;
    let status = tar.stdin(Stdio::null()).stdout(output).status();
    let status = status.map_err(|error| {
        Failure::new(format!("tar cannot be run: {}", reason(&error))).advice("install GNU tar")
    })?;
    // 1: a file has changed while it was read, which tar says; the archive is whole.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(Failure::new(format!(
            "{} stays as it was: tar has failed ({status})",
            shown(archive)
        )));
    }
    Ok(())
}

fn umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}

/// Removes what those have left in `directory` who were killed while they wrote the archive `name`.
fn remove_left(directory: &Path, name: &OsStr) {
    let prefix = [b".", name.as_bytes(), PART.as_bytes()].concat();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if !found.as_bytes().starts_with(&prefix) || !found.as_bytes().ends_with(b".new") {
            continue;
        }
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        // Others may have put a link there, or a FIFO.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(entry.path());
        let is_left = opened.is_ok_and(|file| {
            let Ok(found) = file.metadata() else {
                return false;
            };
            let is_own = found.uid() == rustix::process::geteuid().as_raw();
            // One that was made this moment is not locked yet.
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            (found.is_file() && is_own)
                && (age.is_some_and(|age| age > NEW) || found.len() > 0)
                && rustix::fs::flock(&file, exclusive).is_ok()
        });
        if is_left {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes overlays of the archives in `mounts` that are to be saved, and of `command` what saves
/// them at its end. What is returned is removed where the command is not started.
pub fn take(mounts: &mut [Request], command: &mut Vec<OsString>) -> Result<Kept, Failure> {
    let mut kept = Kept(Vec::new());
    for request in mounts {
        let Some(at) = request.options.iter().position(|(name, _)| name == "save") else {
            continue;
        };
        let driver = match &request.driver {
            Some(name) => culvert_drivers::find(name),
            None => culvert_drivers::detect(&request.source),
        };
        // What has no such option says so.
        if !driver.is_ok_and(|driver| driver.options.iter().any(|one| one.name == "save")) {
            continue;
        }
        let (_, value) = request.options.remove(at);
        if let Some((name, _)) = request.options.first() {
            return Err(
                Failure::new(format!("option save does not go with option {name}"))
                    .advice("an overlay may be saved by culvert save"),
            );
        }
        let source = path(&request.source);
        let archive = match &value[..] {
            b"" => source,
            value => path(value),
        };
        let archive = std::path::absolute(archive).map_err(|e| failed("finding", archive, &e))?;
        expect_programs(how(&archive)?)?;
        let (directory, real, name) = place(source)?;
        let link = directory.join(part(&name, ".kept"));
        fs::hard_link(&real, &link).map_err(|error| {
            failed("keeping", &real, &error)
                .advice("option save needs a directory that may be written to")
        })?;
        kept.0.push(link.clone());
        let target = std::path::absolute(path(&request.target));
        let target = target.map_err(|e| failed("finding", path(&request.target), &e))?;
        let words = [
            own_path()
                .map_err(|error| failed("finding", Path::new("culvert"), &error))?
                .into(),
            AFTER.into(),
            target.into(),
            archive.into(),
            link.clone().into(),
        ];
        command.splice(0..0, words);
        let overlay = parse_mount(b"type=overlay,upperdir=memory:,target=/").map(|mut overlay| {
            let below = escape(&link.into_os_string().into_vec());
            overlay.options.push(("lowerdir".into(), below));
            overlay.target = request.target.clone();
            overlay
        });
        *request = overlay.map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(kept)
}

/// Second names of archives, gone when dropped: by execve(2) they stay, for [`after`] to remove.
#[must_use]
pub struct Kept(Vec<PathBuf>);

impl Drop for Kept {
    fn drop(&mut self) {
        for link in &self.0 {
            let _ = fs::remove_file(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_and_by_content() {
        let place = std::env::temp_dir().join(format!("culvert-save-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let option = |name: &str| how(&place.join(name)).ok();
        assert_eq!(option("new.tar"), Some(How::Tar(None)));
        assert_eq!(option("new.tgz"), Some(How::Tar(Some("--gzip"))));
        assert_eq!(option("new.tar.zst"), Some(How::Tar(Some("--zstd"))));
        assert_eq!(option("new.tar.Z"), Some(How::Tar(Some("--compress"))));
        assert_eq!(option("new.zip"), Some(How::Zip));
        assert_eq!(option("new.7z"), None);
        fs::write(place.join("text.tar"), "no archive").unwrap();
        assert_eq!(option("text.tar"), None);
        fs::write(place.join("other.zip"), [0; 10240]).unwrap();
        assert_eq!(option("other.zip"), Some(How::Tar(None)));
        fs::remove_dir_all(&place).unwrap();
    }
}
