//! The files of a driver that breaks a rule.

use crate::{Caller, Errno, Error, File, FileLayer, Result, Sink, Source, Whence};
use std::{
    boxed::Box,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    thread::ThreadId,
    vec,
    vec::Vec,
};

/// A file of [`super::Broken`].
pub(super) struct BrokenFile {
    pub(super) inner: Box<dyn File>,
    pub(super) flaw: &'static str,
    /// Where this description believes the end to be.
    pub(super) end: AtomicU64,
    /// Writes kept back until the file is closed.
    pub(super) buffered: Mutex<Vec<(u64, Vec<u8>)>>,
    pub(super) opener: Mutex<Option<ThreadId>>,
    pub(super) renamed: Arc<AtomicBool>,
}

fn all_of(from: &mut dyn Source) -> Result<Vec<u8>> {
    let mut bytes = vec![0; from.remaining()];
    let count = from.take(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

impl FileLayer for BrokenFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let attributes = self.inner.attributes(&Caller::SYSTEM)?;
        let stale = || -> Result<usize> { Err(Errno::ESTALE.into()) };
        match self.flaw {
            "read-past-end" if offset > attributes.size => Err(Errno::EINVAL.into()),
            "read-anywhere" => self.inner.read_at(offset & !1, out),
            "unlinked-stays-open" if attributes.links == 0 => stale(),
            "threads" => {
                let me = thread::current().id();
                let mut opener = self.opener.lock().expect("no panic under this lock");
                let mine = *opener.get_or_insert(me) == me;
                drop(opener);
                if mine {
                    self.inner.read_at(offset, out)
                } else {
                    stale()
                }
            }
            "content" | "faults" => {
                let mut bytes = vec![0; out.remaining()];
                let count = self.inner.read_at(offset, &mut bytes.as_mut_slice())?;
                if let (Some(first), "content") = (bytes.first_mut(), self.flaw) {
                    *first ^= 1;
                }
                match out.put(&bytes[..count])? {
                    put if put < count => Err(Errno::EFAULT.into()),
                    put => Ok(put),
                }
            }
            _ => self.inner.read_at(offset, out),
        }
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        match self.flaw {
            "write" => {
                let bytes = all_of(from)?;
                self.inner
                    .write_at(offset, &mut &bytes[..bytes.len().min(4999)])?;
                Ok(bytes.len())
            }
            "seen-by-all" => {
                let bytes = all_of(from)?;
                let count = bytes.len();
                let mut buffered = self.buffered.lock().expect("no panic under this lock");
                buffered.push((offset, bytes));
                Ok(count)
            }
            "rename-keeps-open" if self.renamed.load(Relaxed) => Err(Errno::ESTALE.into()),
            _ => self.inner.write_at(offset, from),
        }
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        match self.flaw {
            "append" => self.inner.append(from).map(|(_, count)| (0, count)),
            "appends-together" => {
                let end = self.end.load(Relaxed);
                let count = self.inner.write_at(end, from)?;
                self.end.store(end + count as u64, Relaxed);
                Ok((end, count))
            }
            _ => self.inner.append(from),
        }
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        match self.flaw {
            "sync" => Err(Error::because(Errno::EIO, "disk on fire")),
            _ => self.inner.sync(data_only),
        }
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        match self.flaw {
            "allocate" => Ok(()),
            _ => self.inner.allocate(mode, offset, length),
        }
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        match self.flaw {
            "seek" => Ok(offset),
            _ => self.inner.seek(offset, whence),
        }
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        match self.flaw {
            "copy-range" => Ok(length),
            _ => self.inner.copy_range(offset, to, to_offset, length),
        }
    }
}

impl Drop for BrokenFile {
    fn drop(&mut self) {
        for (offset, bytes) in self.buffered.get_mut().expect("no panic under this lock") {
            let _ = self.inner.write_at(*offset, &mut &bytes[..]);
        }
    }
}
