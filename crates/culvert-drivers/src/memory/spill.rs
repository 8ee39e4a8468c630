//! Where a file system lies that is larger than its memory: a directory of its own below the one
//! that `spill=` names.
//!
//! ```text
//! DIR/culvert-spill.ID/        0700; ID stands in the image
//!     pages                    the blocks behind the last one of the image
//!     pages.files/             files that are mapped (`external`)
//!     image                    a link that leads nowhere: whose it is (`Record`)
//! IMAGE.spill                  a link to that directory
//! ```
//!
//! The directory belongs to the file system as long as `IMAGE.spill` leads to it. A run's image
//! goes with the run, so what is left then is removed by whoever removes the run, or by the next
//! one that spills to the same directory.

use super::{host, kernel_files};
use crate::OwnedFd;
use crate::archive::host::{self as files, status, terminated};
use alloc::{format, string::String, vec::Vec};
use culvert::{Errno, Error, Result};
use culvert_sys::fd::{AsFd, CWD};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::fs;

/// What the name of the link has more than that of the image. Names of file systems do not end so.
pub const SUFFIX: &[u8] = b".spill";
/// What names of spills begin with.
const PREFIX: &str = "culvert-spill.";
const PAGES: &[u8] = b"pages";
const RECORD: &[u8] = b"image";

fn name_of(id: u64) -> String {
    format!("{PREFIX}{id:016x}")
}

/// The path of the link beside `image`.
fn link_of(image: &[u8]) -> Vec<u8> {
    [image, SUFFIX].concat()
}

/// The path of the pages in the spill `path`.
pub fn pages_of(path: &[u8]) -> Vec<u8> {
    [path, b"/", PAGES].concat()
}

/// A new spill: gone when dropped, unless it was [`Made::keep`]-ed. Its pages are open meanwhile,
/// which tells others that it is not stale.
pub struct Made {
    /// What its name ends in.
    pub id: u64,
    path: Vec<u8>,
    /// Bytes that the directory has free.
    pub free: u64,
    pages: Option<OwnedFd>,
}

impl Made {
    /// A spill in `directory` for the file system in `image`. Others may open its files where
    /// `shared`; what keeps them out is its directory.
    pub fn new(directory: &[u8], image: &[u8], shared: bool) -> Result<Self> {
        let failed = |errno: Errno| {
            let shown = crate::archive::warning::printable(directory);
            Error::from(errno).within(&format!("option spill: \"{shown}\""))
        };
        let above = open_directory(directory).map_err(failed)?;
        sweep(&above, directory);
        let id = files::random().max(1);
        let name = name_of(id);
        let path = [directory, b"/", name.as_bytes()].concat();
        host::make_directory(&path).map_err(failed)?;
        let mut made = Self {
            id,
            free: host::free_space(&above).map_err(failed)?,
            pages: None,
            path,
        };
        made.fill(image, shared).map_err(failed)?;
        Ok(made)
    }

    fn fill(&mut self, image: &[u8], shared: bool) -> core::result::Result<(), Errno> {
        let pages = pages_of(&self.path);
        let (file, directory) = match shared {
            true => (0o666, 0o777),
            false => (0o600, 0o700),
        };
        let fd = host::create(&pages)?;
        fs::fchmod(&fd, file)?;
        kernel_files::make_directory(&pages, directory).map_err(|error| error.errno())?;
        let record = Record::of(link_of(image))?.text();
        let place = [&self.path[..], b"/", RECORD].concat();
        fs::symlink(&terminated(&record)?, &terminated(&place)?)?;
        self.pages = Some(fd);
        Ok(())
    }

    /// It is that of the file system in `image` from now on, which has no name yet, or one that
    /// nobody else looks at.
    pub fn link(&self, image: &[u8]) -> Result<()> {
        // What a process left that was killed before the image had its name.
        self.unlink(image)?;
        Ok(fs::symlink(
            &terminated(&self.path)?,
            &terminated(&link_of(image))?,
        )?)
    }

    /// The file system in `image` has none, after all.
    pub fn unlink(&self, image: &[u8]) -> Result<()> {
        match files::unlink(&link_of(image)) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// It stays.
    pub fn keep(mut self) {
        self.path.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.path.is_empty() {
            remove(&self.path);
        }
    }
}

/// Opens a directory that the user names.
fn open_directory(path: &[u8]) -> core::result::Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(CWD, &terminated(path)?, flags, 0)
}

/// Where the file system in `image` spills to, whose spill has the number `id`: the path of the
/// spill, and its pages. `EIO` where it is missing, `EACCES` where it is not `owner`'s, as the
/// image is.
pub fn open(image: &[u8], id: u64, owner: u32) -> Result<(Vec<u8>, OwnedFd)> {
    let missing = |errno: Errno| {
        let why = format!("its spill ({}, spill=) is missing: {errno}", name_of(id));
        Error::because(Errno::EIO, why)
    };
    let path = fs::read_link(CWD, &terminated(&link_of(image))?).map_err(missing)?;
    if !path.ends_with(name_of(id).as_bytes()) {
        return Err(missing(Errno::ENOENT));
    }
    let directory = of(owner, host::open_directory(&path).map_err(missing)?)?;
    let pages = kernel_files::open_at(&directory, PAGES, OFlags::RDWR).map_err(missing)?;
    Ok((path, of(owner, pages)?))
}

fn ours(fd: OwnedFd) -> Result<OwnedFd> {
    of(files::effective_user(), fd)
}

fn of(owner: u32, fd: OwnedFd) -> Result<OwnedFd> {
    match status(&fd)?.uid == owner {
        true => Ok(fd),
        false => Err(Error::because(Errno::EACCES, "its spill is another user's")),
    }
}

/// Whose a spill is: the text of the link in it. Another machine, or container, may use the same
/// directory, and has other file systems in memory at the same paths.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// `/proc/sys/kernel/random/boot_id`.
    boot: Vec<u8>,
    /// The device that the link to the spill lies on.
    device: u64,
    link: Vec<u8>,
}

impl Record {
    fn of(link: Vec<u8>) -> core::result::Result<Self, Errno> {
        Ok(Self {
            boot: boot()?,
            device: device_of(&link)?,
            link,
        })
    }

    fn text(&self) -> Vec<u8> {
        let device = format!(":{:x}:", self.device);
        [&self.boot[..], device.as_bytes(), &self.link].concat()
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(3, |&byte| byte == b':');
        let (boot, device, link) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            boot: boot.to_vec(),
            device: u64::from_str_radix(core::str::from_utf8(device).ok()?, 16).ok()?,
            link: link.to_vec(),
        })
    }
}

fn boot() -> core::result::Result<Vec<u8>, Errno> {
    let file = files::open_read(b"/proc/sys/kernel/random/boot_id")?;
    let mut text = [0; 64];
    let length = files::read_at(&file, 0, &mut text)?;
    Ok(text[..length].trim_ascii().to_vec())
}

/// The device of the directory that `path` lies in, or of the first one above that is there.
fn device_of(path: &[u8]) -> core::result::Result<u64, Errno> {
    let mut path = path;
    loop {
        let end = path.iter().rposition(|&byte| byte == b'/');
        path = match end {
            Some(1..) => &path[..end.unwrap_or(0)],
            _ => b"/",
        };
        match fs::stat(&terminated(path)?) {
            Ok(found) => return Ok(found.st_dev),
            Err(Errno::ENOENT) if path != b"/" => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Removes this user's spills in `directory`, whose path is `path`, that are nobody's any more.
/// Whatever goes wrong is left for the next one.
fn sweep(directory: &OwnedFd, path: &[u8]) {
    let Ok(names) = kernel_files::list(directory) else {
        return;
    };
    for name in names {
        if name.starts_with(PREFIX.as_bytes()) {
            let path = [path, b"/", &name].concat();
            if is_stale(&path).unwrap_or(false) {
                remove(&path);
            }
        }
    }
}

/// Whether the spill `path` belongs to no file system, and nobody uses it.
fn is_stale(path: &[u8]) -> Result<bool> {
    let directory = ours(host::open_directory(path)?)?;
    let record = match fs::read_link(&directory, &terminated(RECORD)?) {
        Ok(text) => Record::parse(&text),
        Err(errno) => return Err(errno.into()),
    };
    let Some(record) = record.filter(|record| boot().is_ok_and(|boot| boot == record.boot)) else {
        return Ok(false);
    };
    if device_of(&record.link)? != record.device {
        return Ok(false);
    }
    // The name is random and unique; its directory may be spelled in other ways.
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    match fs::read_link(CWD, &terminated(&record.link)?) {
        Ok(target) if target.ends_with(name) => return Ok(false),
        Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
        Err(_) => return Ok(false),
    }
    let pages = kernel_files::open_at(&directory, PAGES, OFlags::RDONLY)?;
    Ok(!kernel_files::is_held(pages))
}

/// Removes the spill that the link `name` in `directory`, a run's, leads to. One that is not this
/// user's, or says that another link is its own, is left alone: who is let into the directory may
/// make links to all there are.
pub fn remove_linked(directory: impl AsFd, name: &[u8]) {
    let target = terminated(name).and_then(|name| fs::read_link(&directory, &name));
    if let Ok(target) = target
        && is_linked_by(&target, &directory, name).unwrap_or(false)
    {
        remove(&target);
    }
}

/// Whether the spill `path` says that its link is `name` in `directory`.
fn is_linked_by(path: &[u8], directory: impl AsFd, name: &[u8]) -> Result<bool> {
    let spill = ours(host::open_directory(path)?)?;
    let record = Record::parse(&fs::read_link(&spill, &terminated(RECORD)?)?);
    let link = record.map(|record| record.link).unwrap_or_default();
    let Some(above) = link
        .strip_suffix(name)
        .filter(|above| above.ends_with(b"/"))
    else {
        return Ok(false);
    };
    let (said, found) = (fs::stat(&terminated(above)?)?, fs::fstat(&directory)?);
    Ok((said.st_dev, said.st_ino) == (found.st_dev, found.st_ino))
}

/// Removes the spill `path`, if it is one of this user's.
fn remove(path: &[u8]) {
    let _ = try_remove(path);
}

fn try_remove(path: &[u8]) -> Result<()> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let id = name.strip_prefix(PREFIX.as_bytes()).unwrap_or_default();
    if id.len() != 16 || !id.iter().all(u8::is_ascii_hexdigit) {
        return Err(Errno::EINVAL.into());
    }
    let directory = ours(host::open_directory(path)?)?;
    let inner = [PAGES, kernel_files::SUFFIX].concat();
    if let Ok(files) = kernel_files::open_at(&directory, &inner, OFlags::DIRECTORY) {
        for name in kernel_files::list(&files)? {
            kernel_files::remove_at(&files, &name)?;
        }
        fs::unlinkat(&directory, &terminated(&inner)?, AtFlags::REMOVEDIR)?;
    }
    kernel_files::remove_at(&directory, PAGES)?;
    kernel_files::remove_at(&directory, RECORD)?;
    Ok(fs::rmdir(&terminated(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn records_are_read_as_they_are_written() {
        let record = Record::of(b"/dev/shm/nowhere/at:all.spill".to_vec()).unwrap();
        assert_eq!(Record::parse(&record.text()), Some(record));
        assert_eq!(Record::parse(b"x:y"), None);
    }

    #[test]
    fn a_spill_goes_when_nobody_has_it_and_no_image_leads_to_it() {
        let place = std::env::temp_dir().join(format!("culvert-spilled-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let directory = place.as_os_str().as_bytes();
        let image = [directory, b"/image"].concat();
        let count = || {
            let entries = std::fs::read_dir(&place).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names
                .filter(|name| name.as_bytes().starts_with(PREFIX.as_bytes()))
                .count()
        };
        drop(Made::new(directory, &image, false).unwrap());
        assert_eq!(count(), 0, "what is not kept is removed");
        let made = Made::new(directory, &image, false).unwrap();
        sweep(&open_directory(directory).unwrap(), directory);
        assert_eq!(count(), 1, "it is being made");
        made.link(&image).unwrap();
        let id = made.id;
        made.keep();
        sweep(&open_directory(directory).unwrap(), directory);
        assert_eq!(count(), 1, "its image is there");
        let me = files::effective_user();
        let opened = open(&image, id, me).unwrap();
        assert!(open(&image, id ^ 1, me).is_err());
        assert!(open(&image, id, me + 1).is_err());
        // The link of another one does not take it away.
        let place_of = open_directory(directory).unwrap();
        let target = std::fs::read_link(place.join("image.spill")).unwrap();
        std::os::unix::fs::symlink(target, place.join("other.spill")).unwrap();
        remove_linked(&place_of, b"other.spill");
        assert_eq!(count(), 1, "another one's link");
        std::fs::remove_file(place.join("image.spill")).unwrap();
        sweep(&open_directory(directory).unwrap(), directory);
        assert_eq!(count(), 1, "somebody has it open");
        drop(opened);
        sweep(&open_directory(directory).unwrap(), directory);
        assert_eq!(count(), 0);
        let made = Made::new(directory, &image, false).unwrap();
        made.link(&image).unwrap();
        made.keep();
        remove_linked(&place_of, b"image.spill");
        assert_eq!(count(), 0, "by its own link");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
