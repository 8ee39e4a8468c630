//! How the code of libraries gets into programs: mapped from images that all programs of the user
//! share, or rewritten in each program's own copy.

use super::{Check, good, limited};
use crate::{failure::reason, failure::shown, run};
use std::{
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

/// The check: what the kernel says of a program that is running inside.
pub fn rewritten_code() -> Check {
    const NAME: &str = "rewritten code";
    const CONSEQUENCE: &str =
        "each program rewrites a copy of its own: programs start more slowly, and take more memory";
    let attempt = || -> Result<(bool, String), String> {
        let base = crate::base::base().map_err(|failure| failure.message().to_owned())?;
        // The first one makes what is not there yet.
        mappings_of_a_program()?;
        let mappings = mappings_of_a_program()?;
        Ok(match from_images(&mappings, &base.join(IMAGES)) {
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

/// Whether code is mapped from a file below `directory`, of the `mappings` of a process.
fn from_images(mappings: &[u8], directory: &Path) -> bool {
    let directory = [directory.as_os_str().as_bytes(), b"/"].concat();
    mappings.split(|&byte| byte == b'\n').any(|line| {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let is_code = fields.nth(1).is_some_and(|rights| rights.contains(&b'x'));
        let name = fields.nth(3).unwrap_or_default().trim_ascii_start();
        is_code && name.starts_with(&directory)
    })
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
