//! What is mapped in this process: `/proc/self/maps` (proc_pid_maps(5)), read and parsed without libc.

use alloc::vec::Vec;
use culvert_sys::{Errno, nr, raw::general as linux, syscall};

/// A line of `/proc/self/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// Whether writes go to the file.
    pub shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file, as (major << 32 | minor, inode); inode 0: none.
    pub file: (u64, u64),
    /// What the kernel calls it.
    pub name: Name,
}

/// The names that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `[stack]`: grows down.
    Stack,
    /// `[heap]`: grows up, by brk(2).
    Heap,
    /// `[vdso]`, `[vvar]` and what else the kernel put there.
    Kernel,
    /// A path, or nothing.
    Other,
}

impl Mapping {
    /// Whether it maps a file.
    pub fn has_file(&self) -> bool {
        self.file.1 != 0
    }
}

/// All mappings of this process, by address.
pub fn all() -> Result<Vec<Mapping>, Errno> {
    let text = contents(c"/proc/self/maps")?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// The contents of a file whose size nobody knows before.
fn contents(path: &core::ffi::CStr) -> Result<Vec<u8>, Errno> {
    const AT_ONCE: usize = 1 << 15; // the kernel gives at most a page or what it has ready
    // SAFETY: the path ends in NUL.
    let descriptor = unsafe {
        let flags = (linux::O_RDONLY | linux::O_CLOEXEC) as usize;
        syscall::call(
            nr::OPENAT,
            [linux::AT_FDCWD as usize, path.as_ptr() as usize, flags],
        )?
    };
    let mut text = Vec::with_capacity(AT_ONCE);
    let result = loop {
        text.reserve(AT_ONCE / 4);
        let room = text.spare_capacity_mut();
        // SAFETY: the kernel writes into memory that is ours and unused.
        let read = unsafe {
            syscall::call(
                nr::READ,
                [descriptor, room.as_mut_ptr() as usize, room.len()],
            )
        };
        match read {
            Ok(0) => break Ok(()),
            // SAFETY: that many bytes have been written behind the old length.
            Ok(count) => unsafe { text.set_len(text.len() + count) },
            Err(Errno::EINTR) => {}
            Err(errno) => break Err(errno),
        }
    };
    // SAFETY: our own descriptor, not used any more.
    let _ = unsafe { syscall::call(nr::CLOSE, [descriptor]) };
    result.map(|()| text)
}

/// `start-end perms offset major:minor inode   path`, numbers hexadecimal but for the inode.
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut range = fields.next()?.split(|byte| *byte == b'-');
    let (start, end) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
    let permissions = fields.next()?;
    let offset = number(fields.next()?, 16)?;
    let mut device = fields.next()?.split(|byte| *byte == b':');
    let device = number(device.next()?, 16)? << 32 | number(device.next()?, 16)?;
    let inode = number(fields.next()?, 10)?;
    let name = match fields.next().unwrap_or_default().trim_ascii() {
        b"[stack]" => Name::Stack,
        b"[heap]" => Name::Heap,
        name if name.starts_with(b"[v") => Name::Kernel, // [vdso], [vvar], [vvar_vclock], [vsyscall]
        _ => Name::Other,
    };
    let has = |index, letter| permissions.get(index) == Some(&letter);
    Some(Mapping {
        start,
        end,
        readable: has(0, b'r'),
        writable: has(1, b'w'),
        executable: has(2, b'x'),
        shared: has(3, b's'),
        offset,
        file: (device, inode),
        name,
    })
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let line = b"7f00aa000000-7f00aa022000 r-xp 00026000 fe:01 1234                       /usr/lib/with space/libc.so.6 (deleted)";
        let expected = Mapping {
            start: 0x7f00_aa00_0000,
            end: 0x7f00_aa02_2000,
            readable: true,
            writable: false,
            executable: true,
            shared: false,
            offset: 0x26000,
            file: (0xfe << 32 | 1, 1234),
            name: Name::Other,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(
            parse(b"7ffd1000-7ffd2000 rw-p 00000000 00:00 0      [stack]").map(|line| line.name),
            Some(Name::Stack)
        );
        assert_eq!(
            parse(b"7ffd1000-7ffd2000 r-xp 00000000 00:00 0 [vdso]").map(|line| line.name),
            Some(Name::Kernel)
        );
        for nonsense in [
            &b""[..],
            b"-",
            b"1-2",
            b"1-2 rwxp zz 0:0 0",
            b"\xff-\xff rwxp 0 0:0 0",
        ] {
            assert_eq!(parse(nonsense), None);
        }
    }

    #[test]
    fn this_function_is_mapped_executable() {
        let here = this_function_is_mapped_executable as fn() as usize as u64;
        let mappings = all().unwrap();
        let mine = mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&here))
            .unwrap();
        assert!(mine.executable && mine.readable && mine.has_file() && !mine.shared);
        assert!(mappings.is_sorted_by_key(|mapping| mapping.start));
        assert!(mappings.iter().any(|mapping| mapping.name == Name::Stack));
    }
}
