//! Open files under the layer.

use super::core::Core;
use alloc::{boxed::Box, sync::Arc};
use core::any::Any;
use culvert::{
    Attributes, Caching, Caller, Errno, File, FileLayer, Result, SetAttributes, Sink, Source,
};

/// A file whose attributes are shown by the rules that it was opened with.
pub struct BindFile {
    inner: Box<dyn File>,
    core: Arc<Core>,
    rules: usize,
    /// What is written loses set-user-ID.
    clears: bool,
}

impl BindFile {
    /// `inner`, opened by `caller`, with the rules that have the place `rules`.
    pub fn new(inner: Box<dyn File>, core: Arc<Core>, rules: usize, caller: &Caller<'_>) -> Self {
        let clears = core.clears(caller);
        Self {
            inner,
            core,
            rules,
            clears,
        }
    }

    /// Something was changed: set-user-ID goes.
    fn changed(&self) -> Result<()> {
        if self.clears {
            let (inner, who) = (&self.inner, &Caller::SYSTEM);
            let own = inner.attributes(who)?;
            self.core
                .cleared(own, |changes| inner.set_attributes(who, changes))?;
        }
        Ok(())
    }

    /// `count` bytes were written: set-user-ID goes, and the rate is waited for.
    fn written(&self, count: usize, interrupted: &dyn Fn() -> bool) -> Result<()> {
        if count > 0 {
            self.changed()?;
        }
        if let Some(rates) = &self.core.rates {
            rates.written(count, interrupted);
        }
        Ok(())
    }
}

impl FileLayer for BindFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn touches_data(&self) -> bool {
        self.core.touches.data
    }

    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        let own = self.inner.attributes(caller)?;
        self.core.shown(caller, self.core.rules(self.rules), own)
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let (core, rules) = (&self.core, self.core.rules(self.rules));
        let own = || self.inner.attributes(caller);
        let set = |wanted: &SetAttributes| self.inner.set_attributes(caller, wanted);
        let changed = core.change(caller, rules, own, changes, set)?;
        core.shown(caller, rules, changed)
    }

    fn caching(&self) -> Caching {
        match self.core.settings.direct_io && self.core.alone {
            true => Caching::Never,
            false => self.inner.caching(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let read = self.inner.read_at(offset, out)?;
        if let Some(rates) = &self.core.rates {
            rates.read(read, &|| out.interrupted());
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let written = self.inner.write_at(offset, from)?;
        self.written(written, &|| from.interrupted())?;
        Ok(written)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let appended = self.inner.append(from)?;
        self.written(appended.1, &|| from.interrupted())?;
        Ok(appended)
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        self.inner.allocate(mode, offset, length)?;
        self.changed()
    }

    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        match self.core.touches.data {
            // The front end reads and writes instead.
            true => Err(Errno::EOPNOTSUPP.into()),
            false => self.inner.copy_range(offset, to, to_offset, length),
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        // What is copied here past this layer would leave set-user-ID.
        match self.core.touches.data || self.clears {
            true => None,
            false => self.inner.as_any(),
        }
    }
}
