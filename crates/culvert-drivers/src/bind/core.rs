//! What the layer knows, which its open files share.

use super::making::Making;
use super::options::Settings;
use super::rates::Rates;
use crate::Keeper;
use alloc::boxed::Box;
use culvert::{FileSystem, Touches};

/// It.
pub struct Core {
    pub inner: Box<dyn FileSystem>,
    pub settings: Settings,
    /// What is shown decides who may do what; else the file system below does.
    pub judges: bool,
    /// The file system below acts by the kernel's calls, with the rights of its thread.
    pub acts: bool,
    /// This is a kernel mount's server.
    pub alone: bool,
    pub touches: Touches,
    pub making: Making,
    pub rates: Option<Rates>,
    pub keeper: Keeper,
}
