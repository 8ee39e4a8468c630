//! What the file system and its open files know.

use super::{derive::Derived, options::Settings, packages::PackageList};
use alloc::boxed::Box;
use culvert::{Attributes, Caller, FileSystem, Node, SetAttributes};

/// Modes of what is made (`handle_mkdir`, `handle_mknod` of the original).
pub const DIRECTORY: u32 = 0o775;
pub const FILE: u32 = 0o664;

/// It.
pub struct Core {
    /// The file system below, which finds names in whatever case.
    pub inner: Box<dyn FileSystem>,
    pub settings: Settings,
    pub packages: PackageList,
}

impl Core {
    /// What is derived of `node`; of one without a name what is derived of the root's files.
    pub fn derived(&self, node: Node) -> Derived {
        let path = self.inner.path_of(node);
        let path = path.as_deref().unwrap_or(b"?");
        Derived::of(&self.settings, |name| self.packages.now().app(name), path)
    }

    /// What is shown of something with these `attributes`.
    pub fn seen(&self, attributes: Attributes) -> Attributes {
        let derived = self.derived(attributes.node);
        Attributes {
            uid: derived.uid,
            gid: derived.gid(&self.settings),
            permissions: derived.mode(&self.settings, attributes.permissions),
            ..attributes
        }
    }

    /// [`Settings::server`].
    pub fn server<'a>(&self, caller: &Caller<'a>) -> Caller<'a> {
        self.settings.server(caller)
    }
}

/// What is done of `changes`: sizes and times. Modes and owners are derived, and to set them is no
/// error, as in the original. None: nothing is left.
pub fn allowed(changes: &SetAttributes) -> Option<SetAttributes> {
    let allowed = SetAttributes {
        permissions: None,
        uid: None,
        gid: None,
        ..*changes
    };
    (!allowed.is_empty()).then_some(allowed)
}
