//! An open file, whoever serves it.

use super::super::caller;
use crate::{Errno, Error, File, Opened, Result, SetAttributes, testing::sinks};
use std::{boxed::Box, fs, os::unix::fs::FileExt, vec, vec::Vec};

pub(super) enum Handle {
    Backed(fs::File),
    Driven(Box<dyn File>),
}

impl From<Opened> for Handle {
    fn from(opened: Opened) -> Self {
        match opened {
            Opened::Backed(fd) => Self::Backed(crate::testing::of_std(fd).into()),
            Opened::Driven(file) => Self::Driven(file),
        }
    }
}

fn errno(error: std::io::Error) -> Error {
    Errno::new(error.raw_os_error().unwrap_or(5)).into()
}

impl Handle {
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Backed(file) => file.write_at(bytes, offset).map_err(errno),
            Self::Driven(file) => file.write_at(offset, &mut &*bytes),
        }
    }

    pub(super) fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        match self {
            Self::Backed(file) => {
                let mut bytes = vec![0; count];
                let read = file.read_at(&mut bytes, offset).map_err(errno)?;
                bytes.truncate(read);
                Ok(bytes)
            }
            Self::Driven(file) => sinks::read(&**file, offset, count),
        }
    }

    pub(super) fn size(&self) -> Result<u64> {
        match self {
            Self::Backed(file) => Ok(file.metadata().map_err(errno)?.len()),
            Self::Driven(file) => Ok(file.attributes(&caller())?.size),
        }
    }

    pub(super) fn links(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        match self {
            Self::Backed(file) => Ok(file.metadata().map_err(errno)?.nlink()),
            Self::Driven(file) => Ok(file.attributes(&caller())?.links.into()),
        }
    }

    pub(super) fn resize(&self, size: u64) -> Result<()> {
        let changes = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        match self {
            Self::Backed(file) => file.set_len(size).map_err(errno),
            Self::Driven(file) => file.set_attributes(&caller(), &changes).map(drop),
        }
    }

    /// Everything, for files that fit in memory.
    pub(super) fn all(&self) -> Result<Vec<u8>> {
        self.read(0, self.size()? as usize + 1)
    }

    pub(super) fn driven(&self) -> Option<&dyn File> {
        match self {
            Self::Backed(_) => None,
            Self::Driven(file) => Some(&**file),
        }
    }
}
