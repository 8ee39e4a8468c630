//! Which pages a process has stored into.

use super::nodes::{Mapped, Node};
use alloc::{sync::Arc, vec::Vec};

/// Bytes of a file that this process may have stored.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Where they are.
    pub ranges: Vec<(u64, u64)>,
    /// These were stored, and no others; else they must be compared with the file.
    pub exact: bool,
}

/// What was stored through `regions` since it was last asked, node by node.
pub fn collect(regions: &[Mapped]) -> Vec<(Arc<Node>, Dirty)> {
    let mut found: Vec<(Arc<Node>, Dirty)> = Vec::new();
    for region in regions.iter().filter(|region| region.written) {
        let ranges = alloc::vec![region.bytes()];
        match found
            .iter_mut()
            .find(|(node, _)| Arc::ptr_eq(node, &region.of))
        {
            Some((_, dirty)) => dirty.ranges.extend(ranges),
            None => found.push((
                region.of.clone(),
                Dirty {
                    ranges,
                    exact: false,
                },
            )),
        }
    }
    found
}
