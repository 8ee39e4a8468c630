//! What a union is.

use super::branch::Branch;
use super::control::Control;
use super::moves::Moves;
use super::nodes::Nodes;
use crate::Keeper;
use crate::name_changes::NameChanges;
use alloc::vec::Vec;
use culvert::Node;

/// The branches of a union and what is known of them.
pub struct Core {
    /// In the order in which they are asked.
    pub branches: Vec<Branch>,
    /// What the front end knows.
    pub nodes: Nodes,
    /// What the user wants.
    pub control: Control,
    /// Where the mount is seen.
    pub target: Vec<u8>,
    /// The right to change names.
    pub names: NameChanges,
    /// Files that were moved.
    pub moves: Moves,
    /// Keeps descriptors.
    pub keeper: Keeper,
    /// Whether missing directories are made by the superuser, whom this thread acts for others as.
    pub elevates: bool,
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
