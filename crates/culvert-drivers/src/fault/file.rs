//! Open files under the layer.

use super::operation::Operations;
use super::rules::{Range, Rules, Selected};
use alloc::{boxed::Box, sync::Arc};
use core::any::Any;
use culvert::{Caller, Errno, File, FileLayer, Operation, Result, Shared, SharedMut, Sink, Source};

/// A file that rules are about.
pub struct FaultFile {
    inner: Box<dyn File>,
    rules: Arc<Rules>,
    /// Those about the path that it was opened by.
    selected: Selected,
}

impl FaultFile {
    /// `inner`, under the rules `selected`.
    pub fn new(inner: Box<dyn File>, rules: Arc<Rules>, selected: Selected) -> Self {
        Self {
            inner,
            rules,
            selected,
        }
    }

    fn pass(&self, operation: Operation) -> Result<()> {
        self.rules.pass(operation, self.selected)
    }

    /// Whether a rule is about what concerns bytes alone.
    fn watches_bytes(&self) -> bool {
        self.rules.any_about(self.selected, Operations::BYTES)
    }

    /// Whether a rule is about bytes read or written: then all of them go through this layer.
    fn watches_data(&self) -> bool {
        self.rules.any_about(self.selected, Operations::DATA)
    }

    /// How many bytes a write may move, if not all.
    fn room(
        &self,
        operation: Operation,
        offset: u64,
        from: &mut dyn Source,
    ) -> Result<Option<usize>> {
        let wanted = from.remaining();
        let interrupted = || from.interrupted() || self.rules.interrupted();
        let range = Range { offset, wanted };
        let room = self
            .rules
            .meet(operation, self.selected, range, &interrupted)?;
        Ok((room < wanted).then_some(room))
    }
}

impl FileLayer for FaultFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn touches_data(&self) -> bool {
        self.watches_bytes()
    }

    fn reports_at_close(&self) -> bool {
        const CLOSING: Operations = Operations::of(&[Operation::Flush]);
        self.rules.any_about(self.selected, CLOSING) || self.inner().reports_at_close()
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let wanted = out.remaining();
        let operation = Operation::ReadAt;
        // Behind the end there is nothing to fail: a read says so.
        let ended = self.rules.look_at_offsets(self.selected, operation)
            && offset >= self.inner.attributes(&Caller::SYSTEM)?.size;
        let room = if ended {
            wanted
        } else {
            let interrupted = || out.interrupted() || self.rules.interrupted();
            let range = Range { offset, wanted };
            self.rules
                .meet(operation, self.selected, range, &interrupted)?
        };
        match room < wanted {
            true => self.inner.read_at(offset, &mut Part { of: out, room }),
            false => self.inner.read_at(offset, out),
        }
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        match self.room(Operation::WriteAt, offset, from)? {
            Some(room) => self.inner.write_at(offset, &mut Part { of: from, room }),
            None => self.inner.write_at(offset, from),
        }
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let operation = Operation::Append;
        let offset = match self.rules.look_at_offsets(self.selected, operation) {
            true => self.inner.attributes(&Caller::SYSTEM)?.size,
            false => 0,
        };
        match self.room(operation, offset, from)? {
            Some(room) => self.inner.append(&mut Part { of: from, room }),
            None => self.inner.append(from),
        }
    }

    fn around<T>(
        &self,
        operation: Operation,
        _: Option<&Caller<'_>>,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.pass(operation)?;
        work()
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        self.pass(Operation::CopyRange)?;
        if self.watches_data() {
            // Inside the back end nobody would meet them: the front end reads and writes instead.
            return Err(Errno::EOPNOTSUPP.into());
        }
        self.inner.copy_range(offset, to, to_offset, length)
    }

    /// None where bytes are watched: a copy to this file inside the back end would pass them by.
    fn as_any(&self) -> Option<&dyn Any> {
        match self.watches_data() {
            true => None,
            false => self.inner.as_any(),
        }
    }
}

/// The beginning of a sink or source: `room` bytes at most.
struct Part<'a, T: ?Sized> {
    of: &'a mut T,
    room: usize,
}

impl Sink for Part<'_, dyn Sink + '_> {
    fn remaining(&self) -> usize {
        self.of.remaining().min(self.room)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = self.of.put(&bytes[..bytes.len().min(self.room)])?;
        self.room -= count;
        Ok(count)
    }

    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        let count = self.of.put_shared(bytes.part(0, self.room))?;
        self.room -= count;
        Ok(count)
    }

    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        let count = self.of.put_zeroes(count.min(self.room))?;
        self.room -= count;
        Ok(count)
    }

    fn interrupted(&self) -> bool {
        self.of.interrupted()
    }
}

impl Source for Part<'_, dyn Source + '_> {
    fn remaining(&self) -> usize {
        self.of.remaining().min(self.room)
    }

    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        let wanted = into.len().min(self.room);
        let count = self.of.take(&mut into[..wanted])?;
        self.room -= count;
        Ok(count)
    }

    fn take_shared(&mut self, into: SharedMut<'_>) -> Result<usize> {
        let count = self.of.take_shared(into.part(0, self.room))?;
        self.room -= count;
        Ok(count)
    }

    fn interrupted(&self) -> bool {
        self.of.interrupted()
    }
}
