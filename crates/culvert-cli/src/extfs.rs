//! Files that a script of extfs unpacks (Midnight Commander, AVFS): the option `script` of
//! archives.
//!
//! The script is a program, so it runs here, once, while the mount is made ready, and never in a
//! program of the run. What it lists and copies out becomes a tar archive in the cache, which is
//! the mount's source from then on.

use crate::failure::{Failure, path, reason, shown};
use culvert::FileKind;
use culvert::mount::Mount;
use culvert_drivers::archive::listing::{self, Listed};
use rustix::fs::OFlags;
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufWriter, Read, Seek, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

/// The option.
pub const OPTION: &str = "script";

/// Where Debian's packages mc and avfs, and those who build them, have scripts.
const PLACES: &[&str] = &[
    "/usr/local/lib/mc/extfs.d",
    "/usr/local/libexec/mc/extfs.d",
    "/usr/lib/mc/extfs.d",
    "/usr/libexec/mc/extfs.d",
    "/usr/local/share/avfs/extfs",
    "/usr/share/avfs/extfs",
];

/// Most bytes of a list, and of all members together.
const LIST: u64 = 64 << 20;
const MOST: u64 = 64 << 30;

/// Warnings of one file that are printed; the rest is counted.
const SHOWN: usize = 10;

const BLOCK: u64 = 512;

/// What is in the cache and was not used for longer is removed when something else is unpacked.
const UNUSED: Duration = Duration::from_hours(24 * 30);
/// What is being written for longer was left.
const LEFT: Duration = Duration::from_hours(24 * 7);

/// Unpacks what in `mount` has a script: into `cache`, or for this run into `run`.
pub fn unpack(mount: &mut Mount, cache: Option<&Path>, run: &Path) -> Result<(), Failure> {
    for leaf in mount.leaves_mut() {
        let is_archive = leaf.driver == "archive";
        let Some(at) = leaf.options.iter().position(|(name, _)| name == OPTION) else {
            continue;
        };
        if !is_archive {
            // Its driver has no such option, and says so.
            continue;
        }
        let (_, script) = leaf.options.remove(at);
        let archive = path(&leaf.source).to_owned();
        let script = find(path(&script))?;
        let own = rustix::process::geteuid().as_raw();
        let is_kept = leaf.option("index") != Some(b"none");
        let cache = cache.filter(|cache| {
            // What root keeps where somebody else may put files is not kept.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(cache);
            is_kept && fs::metadata(cache).is_ok_and(|found| found.uid() == own)
        });
        let unpacked = place(&archive, &script, cache.unwrap_or(run))?;
        leaf.source = unpacked.into_os_string().into_vec();
    }
    Ok(())
}

fn failed(what: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{what} {}: {}", shown(file), reason(error)))
}

/// The script `wanted`, a name among those that are installed, or a path; which nobody but root and
/// this user may have written.
fn find(wanted: &Path) -> Result<PathBuf, Failure> {
    let name = wanted.as_os_str().as_bytes();
    let is_path = name.contains(&b'/');
    let refused = |why: String| Failure::new(format!("script {}: {why}", shown(wanted)));
    if name.is_empty() || matches!(name, [b'.', ..]) && !is_path {
        return Err(refused("it needs a name or a path".into()));
    }
    if matches!(name, [.., b'+' | b':']) {
        return Err(refused("it lists this machine, not a file".into())
            .advice("scripts whose names end in + or : are not run"));
    }
    let found = match is_path {
        true => wanted.to_owned(),
        false => {
            let mut places = PLACES.iter().map(|place| Path::new(place).join(wanted));
            places.find(|place| place.is_file()).ok_or_else(|| {
                refused(format!("it is in none of {}", PLACES.join(", ")))
                    .advice("install mc or avfs, or give the script's path")
            })?
        }
    };
    let real = fs::canonicalize(&found).map_err(|error| refused(reason(&error)))?;
    let own = rustix::process::geteuid().as_raw();
    for place in real.ancestors() {
        let found = fs::symlink_metadata(place).map_err(|error| refused(reason(&error)))?;
        let why = match () {
            () if found.uid() != 0 && found.uid() != own => "belongs to somebody else",
            // In a directory like /tmp nobody replaces another's file.
            () if found.mode() & 0o022 != 0 && !(found.is_dir() && found.mode() & 0o1000 != 0) => {
                "may be written by others"
            }
            () => continue,
        };
        let why = format!("{} {why}, who would have it run by you", shown(place));
        return Err(refused(why).advice("give a script that only you or root may change"));
    }
    match fs::metadata(&real) {
        Ok(found) if found.is_file() => Ok(real),
        _ => Err(refused("it is no file".into())),
    }
}

/// What tells one state of a file from another.
fn state(found: &Metadata) -> [i64; 7] {
    let (modified, changed) = (found.mtime_nsec(), found.ctime_nsec());
    let [device, inode, size] = [found.dev(), found.ino(), found.size()].map(|it| it as i64);
    [
        device,
        inode,
        size,
        found.mtime(),
        modified,
        found.ctime(),
        changed,
    ]
}

/// The archive of what `script` has unpacked of `archive` in `directory`, made if it is not there.
fn place(archive: &Path, script: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let look = |file: &Path| {
        let found = fs::metadata(file);
        found.map_err(|error| failed("looking at", file, &error))
    };
    let before = state(&look(archive)?);
    let mut hash = DefaultHasher::new();
    (archive, before, script, state(&look(script)?)).hash(&mut hash);
    let place = directory.join(format!("{:016x}.extfs.tar", hash.finish()));
    if is_own(&place) {
        used_now(&place);
        return Ok(place);
    }
    remove_unused(directory, SystemTime::now());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| failed("making", directory, &error))?;
    let part = Part(directory.join(name(".tar.part")));
    let made = new(&part.0).map_err(|error| failed("making", &part.0, &error))?;
    let work = Work::new()?;
    let source = Source {
        archive,
        script,
        work: &work,
    };
    source.unpack(made)?;
    if state(&look(archive)?) != before {
        return Err(Failure::new(format!(
            "{} has changed meanwhile",
            shown(archive)
        )));
    }
    fs::rename(&part.0, &place).map_err(|error| failed("making", &place, &error))?;
    Ok(place)
}

/// What is in the cache was used now: its time of access says so, for that of its last change is
/// what its index goes by.
fn used_now(place: &Path) {
    let time = |nanoseconds| rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    let times = rustix::fs::Timestamps {
        last_access: time(rustix::fs::UTIME_NOW),
        last_modification: time(rustix::fs::UTIME_OMIT),
    };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let _ = rustix::fs::utimensat(rustix::fs::CWD, place, &times, flags);
}

/// Removes from `directory` what was unpacked and then not used for [`UNUSED`], and what those have
/// left there who were killed.
fn remove_unused(directory: &Path, now: SystemTime) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (place, name) = (entry.path(), entry.file_name());
        let name = name.as_bytes();
        let most = match () {
            () if name.ends_with(b".extfs.tar") => UNUSED,
            () if name.starts_with(b"culvert-extfs-") && name.ends_with(b".tar.part") => LEFT,
            () => continue,
        };
        let used = fs::symlink_metadata(&place).and_then(|found| {
            let (read, written) = (found.accessed()?, found.modified()?);
            Ok(read.max(written))
        });
        let age = used.map(|used| now.duration_since(used).unwrap_or_default());
        if is_own(&place) && age.is_ok_and(|age| age > most) {
            let _ = fs::remove_file(&place);
        }
    }
}

/// Whether `place` is a file of this user's that nobody else may write.
fn is_own(place: &Path) -> bool {
    let found = fs::symlink_metadata(place);
    found.is_ok_and(|found| {
        let own = rustix::process::geteuid().as_raw();
        found.is_file() && found.uid() == own && found.mode() & 0o022 == 0
    })
}

/// A name that nobody else has.
fn name(ending: &str) -> OsString {
    let mut number = [0; 8];
    let _ = culvert_sys::process::getrandom(&mut number, 0);
    format!("culvert-extfs-{:016x}{ending}", u64::from_ne_bytes(number)).into()
}

fn new(file: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(0o600).open(file)
}

/// A file that is being written, gone unless it has its name.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A directory for the script alone: it stands there, and copies out to a file beside.
struct Work(PathBuf);

impl Work {
    fn new() -> Result<Self, Failure> {
        let place = std::env::temp_dir().join(name(""));
        let make = |place: &Path| {
            let made = DirBuilder::new().mode(0o700).create(place);
            made.map_err(|error| failed("making", place, &error))
        };
        make(&place)?;
        let work = Self(place);
        make(&work.directory())?;
        Ok(work)
    }

    fn directory(&self) -> PathBuf {
        self.0.join("directory")
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Source<'a> {
    archive: &'a Path,
    script: &'a Path,
    work: &'a Work,
}

/// What the user should know.
#[derive(Default)]
struct Warnings(usize);

impl Warnings {
    fn add(&mut self, of: &Path, what: &str) {
        self.0 += 1;
        if self.0 <= SHOWN {
            eprintln!("culvert: warning: {}: {what}", shown(of));
        }
    }
}

impl Source<'_> {
    fn command(&self, word: &str) -> Command {
        let mut command = Command::new(self.script);
        command.arg(word).arg(self.archive);
        command.current_dir(self.work.directory());
        command.env("MC_TMPDIR", self.work.directory());
        command.stdin(Stdio::null());
        command
    }

    fn cannot_run(&self, error: &io::Error) -> Failure {
        failed("running", self.script, error)
    }

    /// The list that the script prints, and whether it says that all went well.
    fn list(&self) -> Result<(Vec<u8>, bool), Failure> {
        let child = self.command("list").stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| self.cannot_run(&error))?;
        let mut text = Vec::new();
        let read = match child.stdout.take() {
            Some(output) => output.take(LIST + 1).read_to_end(&mut text),
            None => Ok(0),
        };
        if text.len() as u64 > LIST {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| self.cannot_run(&error))?;
        read.map_err(|error| self.cannot_run(&error))?;
        if text.len() as u64 > LIST {
            let (script, most) = (shown(self.script), LIST >> 20);
            return Err(Failure::new(format!("{script} lists more than {most} MiB")));
        }
        Ok((text, status.success()))
    }

    /// Writes all members to `made`.
    fn unpack(&self, made: File) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs() as i64);
        let (text, went_well) = self.list()?;
        let list = listing::parse(&text, now);
        let (script, mut warnings) = (shown(self.script), Warnings::default());
        if !went_well && list.members.is_empty() {
            let archive = shown(self.archive);
            return Err(Failure::new(format!("{script} cannot list {archive}"))
                .advice("what it said is above; the programs that it runs must be installed"));
        }
        if !went_well {
            warnings.add(self.archive, &format!("{script} has failed after its list"));
        }
        for line in list.strange {
            let what = format!("line {line} of what {script} lists is not understood");
            warnings.add(self.archive, &what);
        }
        let mut out = BufWriter::with_capacity(1 << 18, made);
        let mut left = MOST;
        for member in &list.members {
            self.add(member, &mut out, &mut left, &mut warnings)?;
        }
        if let Some(more) = warnings.0.checked_sub(SHOWN).filter(|&more| more > 0) {
            eprintln!("culvert: warning: {}: {more} more", shown(self.archive));
        }
        out.write_all(&[0; 2 * BLOCK as usize])
            .and_then(|()| out.flush())
            .map_err(|error| self.cannot_write(&error))
    }

    fn cannot_write(&self, error: &io::Error) -> Failure {
        failed("unpacking", self.archive, error)
    }

    fn add(
        &self,
        member: &Listed,
        out: &mut BufWriter<File>,
        left: &mut u64,
        warnings: &mut Warnings,
    ) -> Result<(), Failure> {
        let name = path(&member.path);
        let mut leave_out = |why: &str| {
            let text = format!("member {} is left out: {why}", shown(name));
            warnings.add(self.archive, &text);
        };
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !name.components().all(is_inside) {
            leave_out("it lies outside");
            return Ok(());
        }
        if matches!(member.path[..], [b'-' | b'@', ..]) {
            leave_out("programs would take the name for an option");
            return Ok(());
        }
        let mut content = None;
        match (member.kind, &member.same_as) {
            (FileKind::Socket, _) => {
                leave_out("it is a socket");
                return Ok(());
            }
            (FileKind::Regular, None) => match self.copy_out(name)? {
                Ok(file) => content = Some(file),
                Err(why) => {
                    leave_out(&why);
                    return Ok(());
                }
            },
            _ => {}
        }
        let error = |error: io::Error| self.cannot_write(&error);
        let length = content.as_ref().map_or(0, |(_, length)| *length);
        *left = left.checked_sub(length).ok_or_else(|| {
            let most = MOST >> 30;
            Failure::new(format!("{} has more than {most} GiB", shown(self.archive)))
        })?;
        header(member, length, out).map_err(error)?;
        if let Some((mut file, length)) = content {
            if io::copy(&mut (&mut file).take(length), out).map_err(error)? != length {
                let name = shown(name);
                return Err(Failure::new(format!("member {name} has become shorter")));
            }
            pad(length, out).map_err(error)?;
        }
        Ok(())
    }

    /// The member `name` as a file, which has no name any more, and its length; or why not.
    fn copy_out(&self, name: &Path) -> Result<Result<(File, u64), String>, Failure> {
        let to = self.work.0.join("file");
        let _ = fs::remove_file(&to);
        // As both programs do: some scripts append, others write over it.
        drop(new(&to).map_err(|error| failed("making", &to, &error))?);
        let mut command = self.command("copyout");
        let status = command.arg(name).arg(&to).stdout(Stdio::null()).status();
        let status = status.map_err(|error| self.cannot_run(&error))?;
        if !status.success() {
            return Ok(Err(format!("{} has failed ({status})", shown(self.script))));
        }
        // The script may have left anything there: a link, a FIFO.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&to);
        let found = opened.and_then(|file| Ok((file.metadata()?, file)));
        let _ = fs::remove_file(&to);
        Ok(match found {
            Ok((found, mut file)) if found.is_file() => match file.rewind() {
                Ok(()) => Ok((file, found.len())),
                Err(error) => Err(reason(&error)),
            },
            Ok(_) => Err("what was copied out is no file".into()),
            Err(error) => Err(reason(&error)),
        })
    }
}

/// Fills up the last block.
fn pad(length: u64, out: &mut impl Write) -> io::Result<()> {
    let rest = length.next_multiple_of(BLOCK) - length;
    out.write_all(&[0; BLOCK as usize][..rest as usize])
}

/// `number` in a field: octal digits, or binary where they do not suffice (GNU tar).
fn put(field: &mut [u8], number: i64) {
    let digits = format!("{number:0width$o}", width = field.len() - 1);
    if number >= 0 && digits.len() < field.len() {
        field[..digits.len()].copy_from_slice(digits.as_bytes());
        return;
    }
    field.fill(if number < 0 { 0xff } else { 0 });
    let length = field.len().min(8);
    let start = field.len() - length;
    field[start..].copy_from_slice(&number.to_be_bytes()[8 - length..]);
    field[0] |= 0x80;
}

/// The header of `member` in GNU's format.
fn header(member: &Listed, length: u64, out: &mut impl Write) -> io::Result<()> {
    let target = match &member.same_as {
        // Names in archives begin where theirs do.
        Some(other) => {
            let from = other.iter().position(|&byte| byte != b'/');
            &other[from.unwrap_or(other.len())..]
        }
        None => &member.target[..],
    };
    for (kind, name) in [(b'K', target), (b'L', &member.path[..])] {
        if name.len() > 100 {
            let long = name.len() as u64;
            block(
                kind,
                b"././@LongLink",
                b"",
                (0, long, 0),
                (0, 0),
                (0, 0),
                out,
            )?;
            out.write_all(name)?;
            pad(long, out)?;
        }
    }
    let kind = match (&member.same_as, member.kind) {
        (Some(_), FileKind::Directory) | (None, FileKind::Directory) => b'5',
        (Some(_), _) if !target.is_empty() => b'1',
        (_, FileKind::Symlink) => b'2',
        (_, FileKind::CharacterDevice) => b'3',
        (_, FileKind::BlockDevice) => b'4',
        (_, FileKind::Fifo) => b'6',
        _ => b'0',
    };
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let (user, group) = member.owner;
    block(
        kind,
        &member.path,
        target,
        (member.permissions.into(), length, member.mtime),
        (user.unwrap_or(own.0), group.unwrap_or(own.1)),
        member.device,
        out,
    )
}

fn block(
    kind: u8,
    name: &[u8],
    target: &[u8],
    (mode, length, mtime): (i64, u64, i64),
    (user, group): (u32, u32),
    (major, minor): (u32, u32),
    out: &mut impl Write,
) -> io::Result<()> {
    let mut block = [0; BLOCK as usize];
    let (name, target) = (
        &name[..name.len().min(100)],
        &target[..target.len().min(100)],
    );
    block[..name.len()].copy_from_slice(name);
    put(&mut block[100..108], mode);
    put(&mut block[108..116], user.into());
    put(&mut block[116..124], group.into());
    put(&mut block[124..136], length.min(i64::MAX as u64) as i64);
    put(&mut block[136..148], mtime);
    block[156] = kind;
    block[157..157 + target.len()].copy_from_slice(target);
    block[257..265].copy_from_slice(b"ustar  \0");
    put(&mut block[329..337], major.into());
    put(&mut block[337..345], minor.into());
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    put(&mut block[148..155], sum.into());
    out.write_all(&block)
}

/// Whether the file `source` with these options is one for a script.
pub fn is_asked(options: &[(String, Vec<u8>)]) -> bool {
    options.iter().any(|(name, _)| name == OPTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_digits_do_not_hold_are_binary() {
        let field = |number: i64| {
            let mut field = [0; 12];
            put(&mut field, number);
            field
        };
        assert_eq!(&field(0o644), b"00000000644\0");
        assert_eq!(&field(0o77777777777), b"77777777777\0");
        assert_eq!(field(1 << 33), [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(field(-2)[..11], [0xff; 11]);
    }

    #[test]
    fn what_is_not_used_for_long_is_removed() {
        let place = std::env::temp_dir().join(name(""));
        DirBuilder::new().mode(0o700).create(&place).unwrap();
        let files = [
            "a.extfs.tar",
            "b.extfs.tar",
            "culvert-extfs-1.tar.part",
            "1.v4",
        ];
        let long_ago = SystemTime::now() - UNUSED - UNUSED;
        for file in files {
            let file = new(&place.join(file)).unwrap();
            let times = fs::FileTimes::new();
            let times = times.set_accessed(long_ago).set_modified(long_ago);
            file.set_times(times).unwrap();
        }
        used_now(&place.join(files[1]));
        remove_unused(&place, SystemTime::now() + UNUSED / 2);
        let there = files.map(|file| place.join(file).exists());
        assert_eq!(there, [false, true, false, true]);
        let changed = fs::metadata(place.join(files[1])).unwrap().modified();
        assert_eq!(changed.unwrap(), long_ago);
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn scripts_that_others_may_change_are_not_run() {
        use std::os::unix::fs::PermissionsExt;
        let place = std::env::temp_dir().join(name(""));
        DirBuilder::new().mode(0o755).create(&place).unwrap();
        let script = place.join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let may = |mode: u32, directory: u32| {
            fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
            fs::set_permissions(&place, fs::Permissions::from_mode(directory)).unwrap();
            find(&script).is_ok()
        };
        assert!(may(0o755, 0o755));
        assert!(!may(0o775, 0o755));
        assert!(!may(0o757, 0o755));
        assert!(!may(0o755, 0o777));
        assert!(may(0o755, 0o755));
        for wanted in ["", "..", "dpkg+", "rpms:", "nobody-has-this"] {
            assert!(find(Path::new(wanted)).is_err(), "{wanted}");
        }
        assert!(find(&place).is_err());
        fs::remove_dir_all(&place).unwrap();
    }
}
