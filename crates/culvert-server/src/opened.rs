//! What the kernel has open: files and directories, by the numbers that it was given.

use culvert::{Attributes, Caller, Directory, Errno, File, Node, Opened, Result, Sink};
use culvert_drivers::{DescriptorFile, Keeper, unhindered};

/// An open file.
pub struct OpenFile {
    /// The file, which serves what the kernel does not.
    pub file: Box<dyn File>,
    /// The node it is of.
    pub node: Node,
    /// [`crate::passthrough::Backings`] counts it, as one that stores or not.
    pub counted: Option<bool>,
    /// [`crate::mapped_writers::MappedWriters`] has it.
    pub stores: bool,
    /// An earlier server had it open, and this one could not open it again: it is there to be
    /// closed ([`Lost`]).
    pub lost: bool,
}

/// What stands for a file that is lost, so that its number, its place and what is counted of it
/// stay the kernel's until that closes it.
pub struct Lost;

impl File for Lost {
    fn read_at(&self, _: u64, _: &mut dyn Sink) -> Result<usize> {
        Err(Errno::EBADF.into())
    }
    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        Err(Errno::EBADF.into())
    }
}

/// What serves the requests on `opened`, of `node`.
pub fn file_in(opened: Opened, node: Node) -> Box<dyn File> {
    match opened {
        Opened::Backed(fd) => {
            let descriptor = unhindered(fd);
            let keeper = Keeper::default();
            Box::new(DescriptorFile::new(descriptor, keeper, node, node.0))
        }
        Opened::Driven(file) => file,
    }
}

/// An open directory.
pub struct OpenDirectory {
    /// What the driver keeps for this open; none: it is asked by node.
    pub driven: Option<Box<dyn Directory>>,
}
