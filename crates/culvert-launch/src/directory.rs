//! What lies in a directory, from the kernel's listing (getdents(2)).

use alloc::{ffi::CString, vec, vec::Vec};
use culvert_run::files::c_string;
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::{S_IFDIR, S_IFMT};
use culvert_sys::{AsFd, Errno, fs};

/// Bytes of a listing that are read at once.
const AT_ONCE: usize = 32 << 10;

/// A name in a directory.
pub struct Entry {
    /// The name.
    pub name: CString,
    /// Whether it is a directory's; of a symbolic link it is not.
    pub is_directory: bool,
}

/// Gives `visit` each entry of the open directory but itself and its parent, as the kernel lists
/// them; `visit` may remove them. Stops at the first error.
pub fn each(
    directory: impl AsFd + Copy,
    mut visit: impl FnMut(Entry) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        let got = fs::getdents64(directory, &mut buffer)?;
        let mut rest = buffer.get(..got).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while let Some((name, kind, behind)) = first(rest) {
            rest = behind;
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name = c_string(name);
            let is_directory = match kind {
                DT_UNKNOWN => is_directory(directory, &name),
                kind => kind == DT_DIR,
            };
            visit(Entry { name, is_directory })?;
        }
    }
}

/// All entries.
pub fn entries(directory: impl AsFd + Copy) -> Result<Vec<Entry>, Errno> {
    let mut found = Vec::new();
    each(directory, |entry| {
        found.push(entry);
        Ok(())
    })?;
    Ok(found)
}

const DT_UNKNOWN: u8 = 0;
const DT_DIR: u8 = 4;

/// Name and type of the first of `entries` (`struct linux_dirent64`), and what follows it.
fn first(entries: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    // Inode and position of the next one, length (2 bytes), type (1 byte), name.
    let length = usize::from(u16::from_ne_bytes(entries.get(16..18)?.try_into().ok()?));
    let kind = *entries.get(18)?;
    let name = entries.get(19..length)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    Some((&name[..end], kind, &entries[length..]))
}

fn is_directory(directory: impl AsFd, name: &core::ffi::CStr) -> bool {
    fs::fstatat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_mode & S_IFMT == S_IFDIR)
}
