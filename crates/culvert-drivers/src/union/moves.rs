//! Which files were moved to another branch while they were open: for those of other processes of
//! the run that have them open, too.

use crate::{Environment, archive::host::terminated};
use alloc::{ffi::CString, format, vec::Vec};
use culvert::{Node, sync::Mutex};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;

/// One of them. Branches are named by the number of their root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The union's number of it before.
    pub from: Node,
    /// The branch, and the node there.
    pub to: (Node, Node),
}

/// All of a mount.
pub struct Moves {
    /// A file in the run directory; none where there is no other process.
    path: Option<CString>,
    own: Mutex<Vec<Move>>,
}

/// Bytes of one in the file.
const SIZE: usize = 24;

impl Moves {
    /// Of the mount with the `number`.
    pub fn new(number: u64, environment: &Environment<'_>) -> Self {
        let directory = environment.run_directory.filter(|_| !environment.alone);
        let path = directory.and_then(|run| {
            let name = format!("/union-{number:x}.moves");
            terminated(&[run, name.as_bytes()].concat()).ok()
        });
        Self {
            path,
            own: Mutex::new(Vec::new()),
        }
    }

    /// Notes `one`, with the right to change names.
    pub fn note(&self, one: Move) {
        self.own.lock().push(one);
        let Some(path) = &self.path else { return };
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let numbers = [one.from.0, one.to.0.0, one.to.1.0];
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        match fs::open(path, flags, 0o600).and_then(|file| fs::write(&file, &bytes)) {
            Ok(SIZE) => {}
            _ => culvert_sys::log!(
                "a file was moved to another branch, and other processes that have it open cannot \
                be told"
            ),
        }
    }

    /// Whether this process has moved any.
    pub fn have_own(&self) -> bool {
        !self.own.lock().is_empty()
    }

    /// Where `from` was moved last: the branch, and the node there.
    pub fn find(&self, from: Node) -> Option<(Node, Node)> {
        let last = |all: &[Move]| {
            let mut all = all.iter().rev();
            all.find(|one| one.from == from).map(|one| one.to)
        };
        let own = last(&self.own.lock());
        own.or_else(|| last(&self.of_all()?))
    }

    fn of_all(&self) -> Option<Vec<Move>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(self.path.as_ref()?, flags, 0).ok()?;
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match fs::read(&file, &mut piece).ok()? {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
        let number = |bytes: &[u8], at: usize| {
            let bytes = bytes[at * 8..].first_chunk().copied();
            Node(bytes.map_or(0, u64::from_le_bytes))
        };
        let each = bytes.chunks_exact(SIZE).map(|one| Move {
            from: number(one, 0),
            to: (number(one, 1), number(one, 2)),
        });
        Some(each.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn another_process_is_told() {
        let directory = std::env::temp_dir().join(format!("culvert-moves-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let environment = Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            ..Environment::default()
        };
        let [one, other] = [(); 2].map(|()| Moves::new(7, &environment));
        assert_eq!(other.find(Node(1)), None);
        for number in 1..400 {
            one.note(Move {
                from: Node(number),
                to: (Node(2), Node(number + 1)),
            });
        }
        assert_eq!(other.find(Node(398)), Some((Node(2), Node(399))));
        assert_eq!(one.find(Node(400)), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
