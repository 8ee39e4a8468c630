//! Which objects may be loaded: the ready parts, and those on root's list.

use crate::parts::OBJECT;
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Where the list usually is.
pub const LIST: &str = "/etc/culvert/extensions";
/// It is no longer than this.
const LONGEST: u64 = 1 << 20;

/// The list: sums as sha256sum(1) says them, a line each, a name behind; lines that begin with #
/// are not read.
#[derive(Clone, Debug)]
pub struct Allowed {
    list: PathBuf,
    owner: u32,
}

impl Allowed {
    /// By the list in this file, which is read at each question. Where there is none, the ready
    /// parts are allowed.
    pub fn new(list: &Path) -> Self {
        Self {
            list: list.to_owned(),
            owner: 0,
        }
    }

    /// The list is somebody else's than root's.
    #[cfg(test)]
    pub fn owned_by(self, owner: u32) -> Self {
        Self { owner, ..self }
    }

    /// Whether the object may be loaded; its sum.
    ///
    /// # Errors
    /// With why not, for people.
    pub fn check(&self, object: &[u8]) -> Result<String, String> {
        let sum = sum(object);
        if sum == self::sum(OBJECT) {
            return Ok(sum);
        }
        let text = self
            .read()
            .map_err(|error| format!("{}: {error}", self.list.display()))?;
        let sums = sums(&text).map_err(|line| {
            format!(
                "{}, line {line}: no SHA-256 sum begins it",
                self.list.display()
            )
        })?;
        match sums.contains(&sum.as_str()) {
            true => Ok(sum),
            false => Err(format!(
                "the object {sum} is not on the list of those that root allows"
            )),
        }
    }

    fn read(&self) -> io::Result<String> {
        let file = match File::open(&self.list) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            file => file?,
        };
        let about = file.metadata()?;
        if about.uid() != self.owner || about.mode() & 0o022 != 0 || !about.is_file() {
            return Err(io::Error::other("others than root may write it"));
        }
        let mut text = String::new();
        match file.take(LONGEST + 1).read_to_string(&mut text)? as u64 <= LONGEST {
            true => Ok(text),
            false => Err(io::Error::other("it is too long")),
        }
    }
}

fn sum(object: &[u8]) -> String {
    let sum = Sha256::digest(object);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sums of a list; the number of the line that has none.
fn sums(text: &str) -> Result<Vec<&str>, usize> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line.trim()));
    let meant = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let sums = meant.map(|(n, line)| {
        let sum = line.split_whitespace().next().unwrap_or_default();
        let plain = sum.len() == 64
            && sum
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        plain.then_some(sum).ok_or(n)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_line_that_is_no_sum_is_told() {
        let sum = sum(b"one");
        assert_eq!(
            sums(&format!("# ours\n\n{sum}  /a b.o\n{sum}\n")),
            Ok(vec![sum.as_str(); 2])
        );
        for line in ["x", &sum[1..], &sum.to_uppercase(), &format!("{sum}0")] {
            assert_eq!(sums(&format!("{sum}\n{line} name\n")), Err(2));
        }
    }

    #[test]
    fn the_ready_parts_and_what_is_listed_are_allowed() {
        let place = std::env::temp_dir().join(format!("culvert-allowed-{}", std::process::id()));
        let own = rustix::process::getuid().as_raw();
        let allowed = Allowed::new(&place).owned_by(own);
        assert!(allowed.check(OBJECT).is_ok());
        assert!(
            allowed
                .check(b"other")
                .is_err_and(|why| why.contains("not on the list"))
        );
        fs::write(&place, format!("{}  other.o\n", sum(b"other"))).expect("a list");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).expect("a mode");
        assert_eq!(allowed.check(b"other"), Ok(sum(b"other")));
        assert!(allowed.check(b"more").is_err());
        // What others may write says nothing, nor what cannot be read; the ready parts stay.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o664)).expect("a mode");
        assert!(
            allowed
                .check(b"other")
                .is_err_and(|why| why.contains("others than root"))
        );
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).expect("a mode");
        let foreign = allowed.clone().owned_by(own + 1);
        assert!(
            foreign
                .check(b"other")
                .is_err_and(|why| why.contains("others than root"))
        );
        fs::write(&place, format!("{}\nwrong\n", sum(b"other"))).expect("a list");
        assert!(
            allowed
                .check(b"other")
                .is_err_and(|why| why.contains("line 2"))
        );
        assert!(allowed.check(OBJECT).is_ok());
        fs::remove_file(&place).expect("it is there");
    }
}
