//! Open files in files.

use alloc::boxed::Box;
use culvert::{Attributes, Caller, File, FileLayer, LayeredFile, Opened, Result};

/// A file whose attributes are those that it has outside.
struct Shown {
    inner: Box<dyn File>,
    attributes: Attributes,
}

impl FileLayer for Shown {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn touches_data(&self) -> bool {
        false
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        Ok(self.attributes)
    }
}

/// `opened` with `attributes`, which do not change.
pub fn shown(opened: Opened, attributes: Attributes) -> Opened {
    match opened {
        Opened::Driven(inner) => Opened::Driven(Box::new(LayeredFile(Shown { inner, attributes }))),
        backed => backed,
    }
}
