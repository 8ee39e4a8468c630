//! How code gets into programs: that of libraries mapped from images that all programs of the user
//! share, or rewritten in each program's own copy; libculvert.so from the user's copy, or as it is.

use super::{Check, good, limited};
use crate::{failure::reason, failure::shown, library_copy, run};
use culvert_launch::library_copy::NAME as COPIES;
use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
};

/// Where images lie in the base.
const IMAGES: &str = "images";

/// Less room than this, in bytes, and the images of a program's libraries do not fit.
const ROOM: u64 = 4 << 20;

/// The checks: what the kernel says of a program that is running inside.
pub fn checks() -> [Check; 2] {
    // The first one makes what is not there yet.
    let mappings = mappings_of_a_program().and_then(|_| mappings_of_a_program());
    [rewritten_code(&mappings), library_copy(&mappings)]
}

fn rewritten_code(mappings: &Result<Vec<u8>, String>) -> Check {
    const NAME: &str = "rewritten code";
    const CONSEQUENCE: &str =
        "each program rewrites a copy of its own: programs start more slowly, and take more memory";
    let attempt = || -> Result<(bool, String), String> {
        let base = crate::base::base().map_err(|failure| failure.message().to_owned())?;
        let mappings = mappings.as_deref().map_err(String::clone)?;
        Ok(match from_images(mappings, &base.join(IMAGES)) {
            true => (true, format!("shared, in {}", shown(base.join(IMAGES)))),
            false => (false, why_in_place(&base)),
        })
    };
    match attempt() {
        Ok((true, found)) => good(NAME, found),
        Ok((false, found)) => limited(NAME, found, CONSEQUENCE),
        Err(why) => limited(NAME, format!("not tried: {why}"), ""),
    }
}

/// Whether programs start with the user's copy of libculvert.so.
fn library_copy(mappings: &Result<Vec<u8>, String>) -> Check {
    const NAME: &str = "library copy";
    let attempt = || -> Result<Result<String, (String, &str)>, String> {
        let mappings = mappings.as_deref().map_err(String::clone)?;
        let library = run::library().map_err(|failure| failure.message().to_owned())?;
        Ok(match copies(mappings) {
            Some(place) => Ok(format!("loaded, from {}", shown(place))),
            None => Err(library_copy::why_none(&library)),
        })
    };
    match attempt() {
        Ok(Ok(found)) => good(NAME, found),
        Ok(Err((why, remedy))) => {
            let consequence = match remedy {
                "" => "programs start more slowly".to_owned(),
                remedy => format!("programs start more slowly: {remedy}"),
            };
            limited(NAME, format!("not loaded: {why}"), &consequence)
        }
        Err(why) => limited(NAME, format!("not tried: {why}"), ""),
    }
}

/// What /proc/PID/maps says of `cat`, started inside: the kernel says it to this process, which is
/// another one, as it is.
fn mappings_of_a_program() -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| reason(&error);
    let own = run::own_path().map_err(|failure| failure.message().to_owned())?;
    let mut program = Command::new(own)
        .args(["run", "--no-private", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let (stdin, stdout) = (program.stdin.take(), program.stdout.take());
    let found = match (stdin, stdout) {
        (Some(mut stdin), Some(mut stdout)) => {
            // It answers as soon as all its libraries are there.
            let answered = stdin
                .write_all(b"x")
                .and_then(|()| stdout.read_exact(&mut [0]));
            answered.and_then(|()| fs::read(format!("/proc/{}/maps", program.id())))
        }
        _ => Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    // Both pipes are closed: it has come to its end.
    let _ = program.wait();
    found.map_err(failed)
}

/// The names of the files from which code is mapped, of the `mappings` of a process.
fn code_files(mappings: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = mappings.split(|&byte| byte == b'\n');
    lines.filter_map(|line| {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let is_code = fields.nth(1).is_some_and(|rights| rights.contains(&b'x'));
        let name = fields.nth(3).unwrap_or_default().trim_ascii_start();
        is_code.then_some(name)
    })
}

/// Whether code is mapped from a file below `directory`, of the `mappings` of a process.
fn from_images(mappings: &[u8], directory: &Path) -> bool {
    let directory = [directory.as_os_str().as_bytes(), b"/"].concat();
    code_files(mappings).any(|name| name.starts_with(&directory))
}

/// The directory of the copies of which one is mapped, of the `mappings` of a process.
fn copies(mappings: &[u8]) -> Option<&Path> {
    let files = code_files(mappings).map(|name| Path::new(OsStr::from_bytes(name)));
    let mut places = files.filter_map(|file| file.parent()?.parent());
    places.find(|place| place.file_name().is_some_and(|name| name == COPIES))
}

/// Why no code is mapped from images in `base`, as far as that can be seen from here.
fn why_in_place(base: &Path) -> String {
    let place = base.join(IMAGES);
    let (system, place) = (rustix::fs::statvfs(&place), shown(&place));
    let Ok(system) = system else {
        return "in place".to_owned();
    };
    let noexec = rustix::fs::StatVfsMountFlags::NOEXEC;
    match system.f_bavail.saturating_mul(system.f_frsize) {
        _ if system.f_flag.contains(noexec) => format!("copied: {place} is mounted noexec"),
        _ if culvert_sys::process::is_filtered() => {
            "in place: a seccomp filter is in force".to_owned()
        }
        room if room < ROOM => format!("in place: {place} has {} MiB free", room >> 20),
        _ => format!("in place: no image is mapped from {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_from_images_is_told_by_its_path() {
        const TAIL: &str = "00001000 00:1a 77                         ";
        for (rights, path, want) in [
            ("r-xp", "/dev/shm/culvert-0/images/12ab-1/libc.so.6", true),
            ("r--p", "/dev/shm/culvert-0/images/12ab-1/libc.so.6", false),
            ("r-xp", "/dev/shm/culvert-0/imagesx/libc.so.6", false),
            ("r-xp", "/usr/lib/x86_64-linux-gnu/libc.so.6", false),
            ("r-xp", "", false),
        ] {
            let line = format!("7f0000001000-7f0000005000 {rights} {TAIL}{path}\n");
            let all = format!("00400000-00500000 r--p 00000000 00:00 0 \n{line}");
            let found = from_images(all.as_bytes(), Path::new("/dev/shm/culvert-0/images"));
            assert_eq!(found, want, "{line}");
        }
    }
}
