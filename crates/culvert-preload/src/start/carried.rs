//! The variable by which a program of a run knows its run, which `exec/environment.rs` writes:
//! `<directory>:<lock descriptor>[,<word>]...:<flags>[:<log file>]`.
//!
//! | word | says |
//! |---|---|
//! | `<descriptor>.<mount>` | a node that the program would not find |
//! | `s<descriptor>` | what open files have saved |
//! | `l<descriptor>.<mount>.<node>` | what stands for the locks of a node |
//! | `p<number>.<number>` | what is known of the program's code, and which interpreter it has |
//! | `r<mount>` | the mount that the root directory is on |

use alloc::vec::Vec;
use culvert::Node;
use culvert_intercept::images::Said;
use culvert_mounts::MountId;
use culvert_run::ShadowName;

/// What `CULVERT_RUN` says.
pub struct Carried<'a> {
    pub directory: &'a [u8],
    pub lock_descriptor: i32,
    /// Nodes that this program would not find (`descriptors/handed.rs`), with their mounts.
    pub handed: Vec<(u16, i32)>,
    /// What open files have saved (`descriptors/saved.rs`).
    pub saved: Option<i32>,
    /// What stands for locks of nodes.
    pub lock_files: Vec<(ShadowName, i32)>,
    /// Of the program (`said_of_program` of the engine's `Config`).
    pub said: Option<Said>,
    /// The mount that the root directory is on.
    pub root: Option<MountId>,
    pub flags: u8,
    pub log: Option<&'a [u8]>,
}

impl<'a> Carried<'a> {
    /// Reads the variable's value; none: it is no such one.
    pub fn of(value: &'a [u8]) -> Option<Self> {
        let mut parts = value.splitn(4, |&b| b == b':');
        let directory = parts.next()?;
        let mut numbers = core::str::from_utf8(parts.next()?).ok()?.split(',');
        let flags = core::str::from_utf8(parts.next()?).ok()?;
        let lock_descriptor = numbers.next()?.parse().ok()?;
        let (mut handed, mut saved, mut said, mut root) = (Vec::new(), None, None, None);
        let mut lock_files = Vec::new();
        for one in numbers {
            match one.split_at_checked(1)? {
                ("s", number) => saved = Some(number.parse().ok()?),
                ("l", file) => {
                    let mut parts = file.split('.');
                    let number = parts.next()?.parse().ok()?;
                    let mount = MountId(parts.next()?.parse().ok()?);
                    let node = Node(u64::from_str_radix(parts.next()?, 16).ok()?);
                    lock_files.push((ShadowName { mount, node }, number));
                }
                ("p", numbers) => {
                    let (nothing, interpreter) = numbers.split_once('.').unwrap_or((numbers, "0"));
                    said = Some(Said {
                        nothing: u64::from_str_radix(nothing, 16).ok()?,
                        interpreter: u64::from_str_radix(interpreter, 16).ok()?,
                    });
                }
                ("r", mount) => root = Some(MountId(mount.parse().ok()?)),
                _ => {
                    let (number, mount) = one.split_once('.')?;
                    handed.push((mount.parse().ok()?, number.parse().ok()?));
                }
            }
        }
        Some(Self {
            directory,
            lock_descriptor,
            handed,
            saved,
            lock_files,
            said,
            root,
            flags: flags.parse().ok()?,
            log: parts.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Carried, Said};

    #[test]
    fn the_variable_is_read_strictly() {
        assert!(
            Carried::of(b"/run/x:1020:0").is_some_and(|c| c.directory == b"/run/x"
                && c.lock_descriptor == 1020
                && c.handed.is_empty()
                && c.flags == 0
                && c.log.is_none())
        );
        assert!(
            Carried::of(b"/run/x:-1:1:/tmp/a:b")
                .is_some_and(|c| c.flags == culvert_run::STRICT && c.log == Some(b"/tmp/a:b"))
        );
        assert!(
            Carried::of(b"/run/x:1020,1018.0,7.2:0")
                .is_some_and(|c| c.handed == [(0, 1018), (2, 7)])
        );
        assert!(
            Carried::of(b"/run/x:1020,7.2,s9:0")
                .is_some_and(|c| c.handed == [(2, 7)] && c.saved == Some(9))
        );
        let said = Said {
            nothing: 0xfe,
            interpreter: 0x1a,
        };
        assert!(Carried::of(b"/run/x:1020,pfe.1a:0").is_some_and(|c| c.said == Some(said)));
        for bad in [
            &b""[..],
            b"/run/x:1,:0",
            b"/run/x:1,7:0",
            b"/run/x:1,s:0",
            b"/run/x:1,pfe.:0",
            b"/run/x",
            b"/run/x:",
            b"/run/x:a:0",
            b"/run/x:1",
        ] {
            assert!(Carried::of(bad).is_none(), "{bad:?}");
        }
    }
}
