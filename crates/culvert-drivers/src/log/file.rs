//! Open files under the layer.

use super::{
    record::{Record, What},
    recorder::{Recorder, changed},
};
use alloc::boxed::Box;
use culvert::{
    Attributes, Caller, File, FileLayer, Node, Operation, Result, SetAttributes, Sink, Source,
};

/// A file whose operations are logged.
pub struct LogFile {
    inner: Box<dyn File>,
    recorder: Recorder,
    node: Node,
    /// Reads and writes are logged, too.
    data: bool,
}

impl LogFile {
    /// `inner`, open on `node`.
    pub fn new(inner: Box<dyn File>, recorder: Recorder, node: Node, data: bool) -> Self {
        Self {
            inner,
            recorder,
            node,
            data,
        }
    }

    /// A record of an operation on bytes: from where, how many were wanted, how many it was.
    fn moved(
        &self,
        operation: Operation,
        wanted: usize,
        work: impl FnOnce() -> Result<(u64, usize)>,
    ) -> Result<(u64, usize)> {
        if !self.data {
            return work();
        }
        let began = self.recorder.now();
        let done = work();
        let (offset, count) = *done.as_ref().unwrap_or(&(0, 0));
        let record = Record {
            numbers: [offset, wanted as u64, count as u64, 0],
            ..Record::new(What::Operation(operation), self.node)
        };
        self.recorder.ended(record, began, &done);
        done
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let record = Record::new(What::Release, self.node);
        let _ = self.recorder.around(record, || Ok(()));
    }
}

impl FileLayer for LogFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    /// Of operations that say no more than what they are about.
    fn around<T>(
        &self,
        operation: Operation,
        _: Option<&Caller<'_>>,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let record = Record::new(What::Operation(operation), self.node);
        self.recorder.around(record, &mut work)
    }

    fn reports_at_close(&self) -> bool {
        true
    }

    fn touches_data(&self) -> bool {
        self.data
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let wanted = out.remaining();
        let done = self.moved(Operation::ReadAt, wanted, || {
            Ok((offset, self.inner.read_at(offset, out)?))
        });
        Ok(done?.1)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let wanted = from.remaining();
        let done = self.moved(Operation::WriteAt, wanted, || {
            Ok((offset, self.inner.write_at(offset, from)?))
        });
        Ok(done?.1)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let wanted = from.remaining();
        self.moved(Operation::Append, wanted, || self.inner.append(from))
    }

    /// Of what the front end asks for itself nothing is told.
    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        match caller.is_system() {
            true => self.inner.attributes(caller),
            false => self.around(Operation::Attributes, Some(caller), || {
                self.inner.attributes(caller)
            }),
        }
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        self.recorder.changing(changed(self.node, changes), || {
            self.inner.set_attributes(caller, changes)
        })
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let record = Record {
            numbers: [offset, length, u64::from(mode), 0],
            ..Record::new(What::Operation(Operation::Allocate), self.node)
        };
        self.recorder
            .around(record, || self.inner.allocate(mode, offset, length))
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let began = self.recorder.now();
        let done = self.inner.copy_range(offset, to, to_offset, length);
        let record = Record {
            numbers: [offset, length, *done.as_ref().unwrap_or(&0), to_offset],
            ..Record::new(What::Operation(Operation::CopyRange), self.node)
        };
        self.recorder.ended(record, began, &done);
        done
    }

    /// What is stored through a mapping is no operation of a driver's.
    fn with_kernel_file(
        &self,
        range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        self.inner.with_kernel_file(range, stores, map)
    }
}
