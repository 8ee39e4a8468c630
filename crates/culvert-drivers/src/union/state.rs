//! What a union is.

use super::beliefs::Beliefs;
use super::branch::{Branch, Tree};
use super::control::Control;
use super::looks::Looks;
use super::moves::Moves;
use super::nodes::Nodes;
use super::options::Settings;
use crate::name_changes::NameChanges;
use crate::{AtOnce, Keeper};
use alloc::{sync::Arc, vec::Vec};
use core::ops::Deref;
use culvert::{Capabilities, Errno, Node, Result};
use culvert_sys::sync::OnceCell;

/// What stays as long as the mount lives.
pub struct Shared {
    /// What the front end knows.
    pub nodes: Nodes,
    /// What the user wants.
    pub control: Control,
    /// What the union can do.
    pub capabilities: Capabilities,
    /// Where the mount is seen.
    pub target: Vec<u8>,
    /// The right to change names.
    pub names: NameChanges,
    /// What calls have found that are about to change it.
    pub looks: Looks,
    /// Which directories are believed to be what they are known to be.
    pub beliefs: Beliefs,
    /// Whether an owner's rights are in a file's mode, and nowhere else; asked once.
    pub modes_decide: OnceCell<bool>,
    /// Files that were moved.
    pub moves: Moves,
    /// Does several things at once.
    pub at_once: Option<AtOnce>,
    /// Keeps descriptors.
    pub keeper: Keeper,
    /// Whether missing directories are made by the superuser, whom this thread acts for others as.
    pub elevates: bool,
}

/// The union for one call: branches and options are what they were when it began, whoever changes
/// them meanwhile.
pub struct Core {
    shared: Arc<Shared>,
    /// In the order in which they are asked.
    pub branches: Arc<Vec<Branch>>,
    settings: Arc<Settings>,
}

impl Core {
    /// The union as it is now.
    pub fn now(shared: &Arc<Shared>) -> Self {
        let (branches, settings) = shared.control.now(shared.names.count(), &shared.nodes);
        Self {
            shared: Arc::clone(shared),
            branches,
            settings,
        }
    }

    /// What stays of it.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The options.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Which of the branches `tree` is; none: it is one no more.
    pub fn branch_of(&self, tree: &Tree) -> Option<usize> {
        self.branches.iter().position(|one| one.id == tree.id)
    }

    /// `EROFS` on a mount that is to stay as it is.
    pub fn writable(&self) -> Result<()> {
        match self.capabilities.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }
}

impl Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// A directory's node on each branch that has it.
pub type Parts = Vec<Option<Node>>;

/// A place: a directory and a name in it.
pub type At<'a> = (Node, &'a [u8]);

/// How a name is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// What is no directory may be known by its name alone.
    Glance,
    /// With nodes on the branches.
    Exact,
}
