//! Which service of all hosts works for a back end: a directory there says it, with the secret.
//!
//! ```text
//! BACKEND/.culvert-sync/    0700, of the user's
//!   lease                   locked (flock(2)) by the service that works; its epoch and address,
//!                           and its public key where it is reached by TLS
//!   secret                  0600: who can read it is the user, on whatever host
//! ```
//!
//! A service that finds the lease locked waits. The file system gives it to the next one when the
//! service or its host dies. Epochs only grow, and turns have their numbers: what was asked of a
//! service is refused by its successor.

use crate::locks::lock;
use crate::remote::{Secret, random};
use culvert_sync_wire::secret::SHORTEST;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory's name in a back end.
pub const DIRECTORY: &str = ".culvert-sync";
const LEASE: &str = "lease";
const SECRET: &str = "secret";
/// Begins a lease.
const TITLE: &str = "culvert-sync 1";
/// Bytes of a lease.
const LENGTH: usize = 256;
/// The largest secret, bytes.
const LARGEST: u64 = 4096;

/// A lease that this process has, as long as it lives.
#[derive(Debug)]
pub struct Lease {
    file: File,
    epoch: u64,
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn directory(backend: &Path) -> io::Result<PathBuf> {
    let path = backend.join(DIRECTORY);
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&path)?;
    let own = rustix::process::geteuid().as_raw();
    match found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0 {
        true => Ok(path),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is not this user's alone", path.display()),
        )),
    }
}

/// The secret of `backend`, made if there is none.
///
/// # Errors
/// Others may read it, or it is too short.
pub fn secret(backend: &Path) -> io::Result<Secret> {
    let directory = directory(backend)?;
    let path = directory.join(SECRET);
    if std::fs::symlink_metadata(&path).is_err() {
        // Whole or not at all, and the first one's: processes of several hosts may have one number.
        let new = directory.join(format!("{SECRET}.{}", hexadecimal()?));
        let mut file = OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(hexadecimal()?.as_bytes())?;
        file.sync_all()?;
        let linked = std::fs::hard_link(&new, &path);
        std::fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(&path)?;
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_file() || found.uid() != own || found.mode() & 0o077 != 0 {
        let text = format!("{} can be read by others", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    match bytes.len() >= SHORTEST {
        true => Ok(Arc::new(bytes)),
        false => Err(wrong("the secret is too short")),
    }
}

/// Text that nobody can guess.
fn hexadecimal() -> io::Result<String> {
    let bytes = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Lease {
    /// Waits until the lease of `backend` is free, and takes it for the service at `address`, which
    /// is reached by TLS if it has a public `key`.
    pub fn wait(backend: &Path, address: SocketAddr, key: Option<&str>) -> io::Result<Self> {
        let lease = Self::open(backend)?;
        lock(&lease, true, true)?;
        Self::taken(lease, address, key)
    }

    /// The same; none where somebody has it.
    pub fn take(
        backend: &Path,
        address: SocketAddr,
        key: Option<&str>,
    ) -> io::Result<Option<Self>> {
        let lease = Self::open(backend)?;
        match lock(&lease, true, false) {
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
            Ok(()) => Self::taken(lease, address, key).map(Some),
        }
    }

    fn open(backend: &Path) -> io::Result<File> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let path = directory(backend)?.join(LEASE);
        let mut open = OpenOptions::new();
        let open = open.read(true).write(true).create(true).truncate(false);
        open.mode(0o600).custom_flags(flags).open(path)
    }

    fn taken(file: File, address: SocketAddr, key: Option<&str>) -> io::Result<Self> {
        let epoch = written(&file)?.map_or(0, |(epoch, _)| epoch) + 1;
        let key = key.map_or_else(String::new, |key| format!(" {key}"));
        let mut text = format!("{TITLE}\n{epoch} {address}{key}\n").into_bytes();
        // In one step, whatever was there: who dies in it has taken no epoch back.
        text.resize(LENGTH, b'\n');
        file.write_all_at(&text, 0)?;
        file.set_len(LENGTH as u64)?;
        file.sync_all()?;
        Ok(Self { file, epoch })
    }

    /// Its number: larger than all before.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether nobody has taken it meanwhile, as a file system may let them that has not heard of
    /// this host for long.
    pub fn is_ours(&self) -> io::Result<bool> {
        Ok(written(&self.file)?.is_some_and(|(epoch, _)| epoch == self.epoch))
    }
}

/// The epoch and the address in a lease; none where it is empty.
fn written(file: &File) -> io::Result<Option<(u64, String)>> {
    let mut bytes = vec![0; LENGTH];
    let length = file.read_at(&mut bytes, 0)?;
    if length == 0 {
        return Ok(None);
    }
    let text = std::str::from_utf8(&bytes[..length]).ok();
    let line = text.and_then(|text| text.strip_prefix(TITLE)?.trim().split_once(' '));
    let (epoch, address) = line.ok_or_else(|| wrong("the lease is damaged"))?;
    let epoch = epoch
        .parse()
        .ok()
        .filter(|epoch| *epoch < u64::from(u32::MAX));
    let epoch = epoch.ok_or_else(|| wrong("the lease is damaged"))?;
    Ok(Some((epoch, address.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("culvert-lease-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn one_has_the_lease_and_the_next_one_has_a_larger_epoch() {
        let place = place("one");
        let address = "127.0.0.1:7".parse().unwrap();
        let first = Lease::take(&place, address, None).unwrap().unwrap();
        assert!(Lease::take(&place, address, None).unwrap().is_none());
        assert!(first.is_ours().unwrap());
        let next = std::thread::scope(|scope| {
            let waits = scope.spawn(|| Lease::wait(&place, address, None).unwrap());
            let epoch = first.epoch();
            drop(first);
            (epoch, waits.join().unwrap())
        });
        assert_eq!(next.1.epoch(), next.0 + 1);
        // As if the file system had given it to somebody else.
        let path = place.join(DIRECTORY).join(LEASE);
        std::fs::write(&path, format!("{TITLE}\n9 127.0.0.1:8\n")).unwrap();
        assert!(!next.1.is_ours().unwrap());
        drop(next);
        std::fs::write(&path, "nonsense").unwrap();
        assert!(Lease::take(&place, address, None).is_err());
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn the_secret_is_one_and_nobody_elses() {
        let place = place("secret");
        let first = secret(&place).unwrap();
        assert_eq!(
            (secret(&place).unwrap(), first.len()),
            (Arc::clone(&first), 64)
        );
        let path = place.join(DIRECTORY).join(SECRET);
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        mode(0o640);
        assert_eq!(
            secret(&place).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        mode(0o600);
        std::fs::write(&path, "short").unwrap();
        assert!(secret(&place).is_err());
        std::fs::remove_dir_all(place).unwrap();
    }
}
