//! A file that is looked into, opened by the driver that has it.

use crate::Keeper;
use crate::archive::bytes::{Bytes, FileBytes};
use alloc::{boxed::Box, sync::Arc};
use culvert::{Attributes, Caller, Errno, File, FileSystem, OpenFlags, Opened, Result};

/// A driver's file as bytes.
struct Driven {
    file: Box<dyn File>,
    length: u64,
}

impl Bytes for Driven {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = self.length.saturating_sub(offset);
        let wanted = rest.min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let mut to = &mut buffer[done..wanted];
            match self.file.read_at(offset + done as u64, &mut to) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) if error.errno() == Errno::EINTR => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// The bytes of the file of `found`, which `of` has.
pub fn open(
    of: &dyn FileSystem,
    caller: &Caller<'_>,
    found: &Attributes,
    keeper: Keeper,
) -> Result<Arc<dyn Bytes>> {
    Ok(match of.open(caller, found.node, OpenFlags(0))? {
        Opened::Backed(file) => Arc::new(FileBytes::of(file)?.0.kept(keeper)),
        Opened::Driven(file) => Arc::new(Driven {
            file,
            length: found.size,
        }),
    })
}
