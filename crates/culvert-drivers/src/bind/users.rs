//! Names of users and groups, looked up when a mount is made.

use crate::archive::host::terminated;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_sys::flags::OFlags;
use culvert_sys::fs;

/// passwd(5) and group(5).
pub struct Users {
    passwd: Vec<u8>,
    group: Vec<u8>,
}

/// All of the file at `path`.
pub fn content(path: &[u8]) -> Result<Vec<u8>, Errno> {
    let file = fs::open(&terminated(path)?, OFlags::RDONLY | OFlags::CLOEXEC, 0)?;
    let mut bytes = Vec::new();
    loop {
        bytes.try_reserve(4096).map_err(|_| Errno::ENOMEM)?;
        if fs::read_more(&file, &mut bytes)? == 0 {
            return Ok(bytes);
        }
    }
}

/// A number that fits, of a user or a group. The largest one names nobody (chown(2)).
pub fn number(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok().filter(|number| *number != u32::MAX)
}

/// The lines of a file like passwd(5), by their fields. A comment has none.
pub fn entries(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let lines = text.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty() && line[0] != b'#');
    lines.map(|line| line.split(|&byte| byte == b':').collect())
}

impl Users {
    /// Those of this machine.
    pub fn of_machine() -> Self {
        let read = |path: &[u8]| content(path).unwrap_or_default();
        Self {
            passwd: read(b"/etc/passwd"),
            group: read(b"/etc/group"),
        }
    }

    fn third(file: &[u8], name: &[u8]) -> Option<u32> {
        let mut all = entries(file);
        let found = all.find(|fields| fields[0] == name)?;
        number(found.get(2)?)
    }

    /// The number of user `name`, which may be a number.
    pub fn user(&self, name: &[u8]) -> Option<u32> {
        number(name).or_else(|| Self::third(&self.passwd, name))
    }

    /// The same of a group.
    pub fn group(&self, name: &[u8]) -> Option<u32> {
        number(name).or_else(|| Self::third(&self.group, name))
    }

    /// The users in group `gid`: as their own group, or as members.
    pub fn members(&self, gid: u32) -> Vec<u32> {
        let own = entries(&self.passwd).filter_map(|fields| {
            let group = number(fields.get(3)?)?;
            (group == gid).then(|| number(fields[2])).flatten()
        });
        let mut all: Vec<u32> = own.collect();
        let group = entries(&self.group).find(|fields| {
            let id = fields.get(2).and_then(|id| number(id));
            id == Some(gid)
        });
        let names = group
            .and_then(|fields| fields.get(3).copied())
            .unwrap_or(b"");
        let names = names
            .split(|&byte| byte == b',')
            .filter(|name| !name.is_empty());
        all.extend(names.filter_map(|name| Self::third(&self.passwd, name)));
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users {
            passwd:
                b"root:x:0:0:root:/root:/bin/sh\n# a:x:9:9\nann:x:1000:50::/:\nben:x:1001:60::/:\n"
                    .to_vec(),
            group: b"root:x:0:\nstaff:x:50:ben,nobody\nbens:x:60:\n".to_vec(),
        }
    }

    #[test]
    fn names_and_numbers_are_found() {
        let users = users();
        assert_eq!(users.user(b"ann"), Some(1000));
        assert_eq!(users.user(b"77"), Some(77));
        assert_eq!(users.user(b"nobody-here"), None);
        assert_eq!(users.user(b"4294967295"), None);
        assert_eq!(users.group(b"staff"), Some(50));
        assert_eq!(users.group(b"ann"), None);
    }

    #[test]
    fn the_machines_files_are_read() {
        let users = Users::of_machine();
        assert_eq!(
            (users.user(b"root"), users.group(b"root")),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn members_are_those_of_both_files() {
        assert_eq!(users().members(50), [1000, 1001]);
        assert_eq!(users().members(60), [1001]);
        assert!(users().members(7).is_empty());
    }
}
