//! What stands in for fusermount where a server looks for it in PATH, as those written in Go do: it
//! hands the server's end of the socket, which it has inherited, to who has started it.

use super::super::DEVICE;
use crate::failure::Failure;
use culvert_preload::fuse_server::{OPTIONS, TARGET};
use culvert_run::files::c_string;
use culvert_sys::{BorrowedFd, net, trust};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The names by which the command is that.
pub const NAMES: [&str; 3] = ["fusermount", "fusermount3", "mergerfs-fusermount"];
/// The directory of the mount directory that has links of these names to the command.
pub const PLACE: &str = "bin";

/// Whether the command was called by the name `name`.
pub fn is_called(name: &OsStr) -> bool {
    let name = Path::new(name).file_name();
    NAMES.iter().any(|known| name == Some(OsStr::new(known)))
}

/// Makes the links in the mount directory `place`: the PATH that leads to them first.
pub fn prepare(place: &Path, own: &Path) -> std::io::Result<OsString> {
    let directory = place.join(PLACE);
    fs::create_dir_all(&directory)?;
    for name in NAMES {
        match std::os::unix::fs::symlink(own, directory.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let mut path = directory.into_os_string();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()));
    Ok(path)
}

/// Does what fusermount is asked for by `words`; the exit status.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<u8, Failure> {
    let words: Vec<_> = words.collect();
    let has = |options: &[&str]| {
        words
            .iter()
            .any(|word| options.iter().any(|one| word == one))
    };
    if has(&["-V", "--version"]) {
        return crate::print("fusermount3 version: 3.14.0\n");
    }
    if has(&["-h", "--help"]) {
        return crate::print("fusermount: [options] mountpoint\nThis one is Culvert's.\n");
    }
    let device = BorrowedFd::number(DEVICE);
    const SO_TYPE: u32 = 3;
    const SOCK_SEQPACKET: i32 = 5;
    if net::socket_option::<i32>(device, SO_TYPE) != Ok(SOCK_SEQPACKET) {
        return Err(Failure::new(
            "this fusermount is Culvert's, for FUSE servers of a run alone",
        ));
    }
    let place = place();
    if has(&["-u", "--unmount"]) {
        let target = place.and_then(|place| fs::read_link(place.join(TARGET)).ok());
        if target.is_some_and(|target| words.iter().any(|word| target.as_os_str() == word)) {
            hang_up(device);
        }
        return Ok(0);
    }
    if let (Some(place), Some(at)) = (place, words.iter().position(|word| word == "-o")) {
        let options = words.get(at + 1).map_or(&b""[..], |word| word.as_bytes());
        let _ = fs::write(place.join(OPTIONS), options);
    }
    let socket = env::var("_FUSE_COMMFD").ok();
    let socket = socket.and_then(|number| number.parse().ok());
    let socket = socket.ok_or_else(|| Failure::new("_FUSE_COMMFD names no socket"))?;
    net::send_with(BorrowedFd::number(socket), &[0], Some(device), 0)
        .map(|_| 0)
        .map_err(|errno| Failure::new(format!("the device cannot be sent: {}", errno.text())))
}

/// Nobody reads or writes it any more.
fn hang_up(device: BorrowedFd<'_>) {
    // SAFETY: it is open: it was asked for its type just now.
    let device = unsafe { std::os::fd::BorrowedFd::borrow_raw(device.raw()) };
    let _ = rustix::net::shutdown(device, rustix::net::Shutdown::Both);
}

/// The mount directory, from the path by which this was executed.
fn place() -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    let place = path.parent()?.parent()?;
    let opened = trust::directory(&c_string(place.as_os_str().as_bytes()), trust::user());
    (path.is_absolute() && opened.is_ok()).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_by_its_name() {
        for (name, is_one) in [
            ("/dev/shm/culvert-0/x/bin/fusermount3", true),
            ("fusermount", true),
            ("culvert", false),
            ("", false),
        ] {
            assert_eq!(is_called(OsStr::new(name)), is_one, "{name}");
        }
    }
}
