//! The mark of a copy for which the kernel has none: the number of what it was copied from.

use crate::Attribute;
use alloc::vec::Vec;
use culvert::{Errno, Node, Result, mount::Mount};

/// `OVL_FH_MAGIC`.
pub const MAGIC: u8 = 0xfb;
/// A version that the kernel takes for one to come, and leaves alone.
const VERSION: u8 = 0xc1;
/// Bytes of it: the first four, and the number.
const LENGTH: usize = 12;

/// The mark with the number `node`.
pub fn of(node: Node) -> Vec<u8> {
    let head = [VERSION, MAGIC, LENGTH as u8, 0];
    [&head[..], &node.0.to_le_bytes()].concat()
}

/// The number in a mark of ours.
pub fn number(origin: &[u8]) -> Option<Node> {
    let head = [VERSION, MAGIC, LENGTH as u8];
    let number = (origin.len() == LENGTH && origin.starts_with(&head)).then(|| &origin[4..])?;
    let number = number.first_chunk().copied();
    number.map(|number| Node(u64::from_le_bytes(number)))
}

/// The numbers that an overlay may have for `node` of layer `branch`: its own, and that of the
/// lower file that it is a copy of, whatever the prefix of marks is. An error: the kernel's marks
/// say nothing without the layers.
pub fn numbers(branch: &Mount, node: Node, read: Attribute<'_>) -> Result<Vec<Node>> {
    let mut all = alloc::vec![super::number(branch, node)];
    for mark in [b"trusted.overlay.origin", &b"user.overlay.origin"[..]] {
        if let Some(origin) = read(mark)? {
            all.push(number(&origin).ok_or(Errno::EOVERFLOW)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_asked_for_by_the_number_of_what_it_was_copied_from() {
        let mount = culvert::mount::parse_mount(b"type=memory,target=/m").unwrap();
        let mount = mount.into_mount("");
        let own = super::super::number(&mount, Node(3));
        let none = |_: &[u8]| Ok(None);
        assert_eq!(numbers(&mount, Node(3), &none).unwrap(), [own]);
        let mark = of(Node(7));
        let copied = |name: &[u8]| Ok(name.starts_with(b"user.").then(|| mark.clone()));
        assert_eq!(numbers(&mount, Node(3), &copied).unwrap(), [own, Node(7)]);
        let kernels = |_: &[u8]| Ok(Some([0, MAGIC].into()));
        assert!(numbers(&mount, Node(3), &kernels).is_err());
        let unknown = |_: &[u8]| Err(Errno::EOPNOTSUPP.into());
        assert!(numbers(&mount, Node(3), &unknown).is_err());
    }
}
