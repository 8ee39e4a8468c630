//! Directories as archives: `culvert save`, and the option `save` of archives.
//!
//! An archive with `save` is an overlay with a file system in memory above it, and the program of
//! the run is a shell that saves what is there when the command has ended. The archive below is a
//! second name of the file, which stays when the first one is replaced: programs that are started
//! later read it by that.

use crate::{
    failure::{Failure, path, reason, shown},
    own_path::own_path,
};
use culvert::mount::{Request, escape, parse_mount};
use rustix::fs::{Gid, Uid};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
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

/// What tar(1) is told for each format, by what the driver calls it and by the endings of names.
const FORMATS: &[(&str, Option<&str>, &[&str])] = &[
    ("tar", None, &[".tar"]),
    ("tar, gzip", Some("--gzip"), &[".tar.gz", ".tgz"]),
    ("tar, zstd", Some("--zstd"), &[".tar.zst", ".tzst"]),
    ("tar, xz", Some("--xz"), &[".tar.xz", ".txz"]),
    (
        "tar, bzip2",
        Some("--bzip2"),
        &[".tar.bz2", ".tbz2", ".tbz"],
    ),
    ("tar, lzip", Some("--lzip"), &[".tar.lz", ".tlz"]),
];

/// Runs the rest of its words, then saves; the status is the command's, or 125 where saving failed.
/// A signal from the terminal is the command's matter.
const SCRIPT: &str = "trap : INT QUIT TERM HUP
culvert=$1 directory=$2 archive=$3 kept=$4
shift 4
\"$@\"
status=$?
\"$culvert\" save \"$directory\" \"$archive\" || { test $status -ne 0 || status=125; }
rm -f \"$kept\"
exit $status";

/// What names of files that are being written begin with, behind a dot and the archive's.
const PART: &str = ".culvert-";

/// A file that is empty for longer is nobody's.
const NEW: Duration = Duration::from_secs(60);

fn failed(what: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{what} {}: {}", shown(file), reason(error)))
}

/// How tar(1) makes an archive like the one that is there, or of that name.
fn compression(archive: &Path) -> Result<Option<&'static str>, Failure> {
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
            FORMATS.iter().find(|(known, ..)| *known == kind)
        }
        false => {
            let name = archive.as_os_str().as_bytes();
            let fits = |ending: &&str| name.ends_with(ending.as_bytes());
            FORMATS
                .iter()
                .find(|(.., endings)| endings.iter().any(fits))
        }
    };
    found.map(|(_, option, _)| *option).ok_or_else(|| {
        Failure::new(format!(
            "{}: archives of this kind are not made",
            shown(archive)
        ))
        .advice("there are tar and, by its name, tar.gz, tar.zst, tar.xz, tar.bz2 and tar.lz")
    })
}

/// Where the archive lies really, its directory and its name there.
fn place(archive: &Path) -> Result<(PathBuf, PathBuf, OsString), Failure> {
    let real = match fs::canonicalize(archive) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::path::absolute(archive).map_err(|error| failed("finding", archive, &error))?
        }
        Err(error) => return Err(failed("finding", archive, &error)),
    };
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Failure::new(format!("{} is no archive", shown(archive))));
    };
    Ok((directory.to_owned(), real.clone(), name.to_owned()))
}

/// The name of a file that is to become `name`.
fn part(name: &OsStr, ending: &str) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!("{PART}{}{ending}", std::process::id()));
    part
}

/// Writes the archive beside the old one, then gives it the name: whoever is killed leaves the old
/// or the new one.
pub fn save(wanted: &Save) -> Result<u8, Failure> {
    let (directory, archive, name) = place(&wanted.archive)?;
    let compression = compression(&archive)?;
    remove_left(&directory, &name);
    let new = directory.join(part(&name, ".new"));
    let _ = fs::remove_file(&new);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new);
    let made = made.map_err(|error| failed("making", &new, &error))?;
    let outcome = write(wanted, &archive, compression, &made).and_then(|()| {
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

fn write(
    wanted: &Save,
    archive: &Path,
    compression: Option<&str>,
    made: &File,
) -> Result<(), Failure> {
    let error = |error: io::Error| failed("writing", archive, &error);
    // Who writes it holds it: what nobody holds was left.
    rustix::fs::flock(made, rustix::fs::FlockOperation::LockShared)
        .map_err(|errno| error(errno.into()))?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file=-", "--format=pax", "--numeric-owner"]);
    tar.args(["--sort=name", "--sparse", "--xattrs", "--xattrs-include=*"]);
    tar.args(compression);
    tar.arg("--directory").arg(&wanted.directory).arg(".");
    let output = made.try_clone().map_err(error)?;
    let status = tar.stdin(Stdio::null()).stdout(output).status();
    let status = status.map_err(|error| {
        Failure::new(format!("tar cannot be run: {}", reason(&error))).advice("install GNU tar")
    })?;
    if !status.success() {
        return Err(Failure::new(format!(
            "{} stays as it was: tar has failed ({status})",
            shown(archive)
        )));
    }
    let (mut mode, mut owner) = (0o666 & !umask(), None);
    if let Ok(old) = archive.metadata() {
        (mode, owner) = (old.mode() & 0o7777, Some((old.uid(), old.gid())));
    }
    if let Some((uid, gid)) = owner {
        // Of another user's archive it is ours now.
        let _ = rustix::fs::fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    }
    made.set_permissions(fs::Permissions::from_mode(mode))
        .map_err(error)?;
    made.sync_all().map_err(error)
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
        let is_left = File::open(entry.path()).is_ok_and(|file| {
            // One that was made this moment is not locked yet.
            let age = file.metadata().and_then(|found| found.modified()).ok();
            let age = age.and_then(|time| time.elapsed().ok());
            (age.is_some_and(|age| age > NEW) || file.metadata().is_ok_and(|it| it.len() > 0))
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
        compression(&archive)?;
        let (directory, real, name) = place(source)?;
        let link = directory.join(part(&name, ".kept"));
        let _ = fs::remove_file(&link);
        fs::hard_link(&real, &link).map_err(|error| {
            failed("keeping", &real, &error)
                .advice("option save needs a directory that may be written to")
        })?;
        kept.0.push(link.clone());
        let target = std::path::absolute(path(&request.target));
        let target = target.map_err(|e| failed("finding", path(&request.target), &e))?;
        let words = [
            OsString::from("/bin/sh"),
            "-c".into(),
            SCRIPT.into(),
            "culvert".into(),
            own_path()
                .map_err(|error| failed("finding", Path::new("culvert"), &error))?
                .into(),
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

/// Second names of archives, gone when dropped: by execve(2) they stay, for the shell to remove.
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
        let option = |name: &str| compression(&place.join(name)).ok();
        assert_eq!(option("new.tar"), Some(None));
        assert_eq!(option("new.tgz"), Some(Some("--gzip")));
        assert_eq!(option("new.tar.zst"), Some(Some("--zstd")));
        assert_eq!(option("new.zip"), None);
        fs::write(place.join("text.tar"), "no archive").unwrap();
        assert_eq!(option("text.tar"), None);
        fs::write(place.join("other.zip"), [0; 10240]).unwrap();
        assert_eq!(option("other.zip"), Some(None));
        fs::remove_dir_all(&place).unwrap();
    }
}
