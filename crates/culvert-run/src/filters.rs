//! Seccomp filters that a run was begun under, as containers have them: what the command could do
//! under them its run can.

use crate::{Run, files::read_file};
use culvert_sys::process;

/// The file of the run directory that says under how many filters the command has made all calls
/// that making an image takes (decimal).
pub const FILE: &str = "filters";

/// Under how many seccomp filters this thread is; none where the kernel does not tell (before Linux
/// 5.9, without /proc).
pub fn count() -> Option<u32> {
    let status = read_file(c"/proc/thread-self/status").ok()?;
    let mut lines = status.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"Seccomp_filters:"))?;
    number(value)
}

fn number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

impl Run {
    /// Whether this thread is under no seccomp filters but those under which the command has made
    /// images' calls. Filters are only ever added, and a program of the run has inherited the
    /// command's: as many are the same.
    pub fn may_make_images(&self) -> bool {
        let tried = || number(&read_file(&self.file(FILE)).ok()?);
        !process::is_filtered() || tried().is_some_and(|tried| count() == Some(tried))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_counted() {
        assert_eq!(
            count().is_some_and(|count| count > 0),
            process::is_filtered()
        );
        assert_eq!(number(b"\t2"), Some(2));
        assert_eq!(number(b""), None);
    }
}
