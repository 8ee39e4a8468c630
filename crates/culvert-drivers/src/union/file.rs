//! An open file of a branch, with the union's numbers.

use super::state::Core;
use alloc::{boxed::Box, sync::Arc};
use culvert::{Attributes, Caller, File, FileLayer, LayeredFile, Node, Result};

/// It, which keeps its node.
pub struct UnionFile {
    inner: Box<dyn File>,
    core: Arc<Core>,
    node: Node,
    index: usize,
}

impl UnionFile {
    /// `inner`, which is `node`, on branch `index`.
    pub fn wrap(
        core: &Arc<Core>,
        node: Node,
        index: usize,
        inner: Box<dyn File>,
    ) -> Result<Box<dyn File>> {
        core.nodes.pin(node)?;
        Ok(Box::new(LayeredFile(Self {
            inner,
            core: Arc::clone(core),
            node,
            index,
        })))
    }
}

impl Drop for UnionFile {
    fn drop(&mut self) {
        self.core.nodes.unpin(self.node).to(&self.core.branches);
    }
}

impl FileLayer for UnionFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        self.core.shown(self.node, self.index, attributes)
    }

    /// Bytes are the branch's own.
    fn touches_data(&self) -> bool {
        false
    }
}
