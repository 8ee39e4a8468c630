//! What the driver does with its watches.

use super::filesystem::PassthroughFs;
use super::kernel::{self, Name};
use super::object::Object;
use super::watch::{Own, Watch};
use culvert::{Entry, FileSystem, Node, Result};

impl PassthroughFs {
    /// The watches, where changes are told.
    pub(super) fn watching(&self) -> Option<&Watch> {
        self.watch.as_ref().filter(|watch| watch.is_active())
    }

    /// [`PassthroughFs::find`], and watches what was found.
    pub(super) fn find_watched(
        &self,
        watch: &Watch,
        dir: Node,
        object: &Object,
        name: &Name,
    ) -> Result<Entry> {
        let entry = self.find(dir, object, name)?;
        let node = entry.attributes.node;
        if node == self.root() {
            return Ok(entry);
        }
        let again = self.object(node).and_then(|found| {
            let known = self.nodes.references(node).is_some_and(|count| count > 1);
            match watch.add(dir, node, &found, known) {
                // Read again: what changed before the watch was not told.
                true => super::attributes::attributes(node, &kernel::status(found.fd(), None)?),
                false => Ok(entry.attributes),
            }
        });
        match again {
            Ok(attributes) => Ok(Entry { attributes }),
            Err(error) => {
                self.nodes.forget(node, 1);
                Err(error)
            }
        }
    }

    /// Does `call`, which makes the events `own`.
    pub(super) fn doing<T>(&self, own: &[Own<'_>], call: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.watch {
            Some(watch) => watch.own(own, call),
            None => call(),
        }
    }
}
