//! An open file of a layer, with the overlay's numbers. One of a lower layer goes on as the copy in
//! the upper one as soon as there is one: it stays one file.

use super::copy_up::Bytes;
use super::nodes::Key;
use super::state::{Core, Part};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert::{
    Attributes, Caller, Errno, File, FileLayer, LayeredFile, Node, OpenFlags, Opened, Operation,
    Result, SetAttributes,
};
use culvert_sys::sync::OnceCell;

/// It, which keeps its node.
pub struct OverlayFile {
    core: Arc<Core>,
    node: Node,
    /// What keeps it.
    pinned: Key,
    flags: OpenFlags,
    /// Whether there may be a copy one day.
    may_rise: bool,
    part: Part,
    inner: Box<dyn File>,
    copy: OnceCell<(Part, Box<dyn File>)>,
    /// A description of it is kept by the kernel ([`File::shared`]).
    is_shared: AtomicBool,
}

impl Core {
    /// `opened` with `flags`, which is `part` in a layer, as `node`.
    pub fn opened(
        self: &Arc<Self>,
        node: Node,
        part: Part,
        flags: OpenFlags,
        opened: Opened,
    ) -> Result<Opened> {
        let inner = self.driven(part, opened)?;
        let pinned = self.nodes.pin(node)?;
        let is_upper = part.layer == 0 && self.settings.upper;
        Ok(Opened::Driven(Box::new(LayeredFile(OverlayFile {
            core: Arc::clone(self),
            node,
            pinned,
            flags,
            may_rise: !is_upper && !self.settings.read_only,
            part,
            inner,
            copy: OnceCell::new(),
            is_shared: AtomicBool::new(false),
        }))))
    }

    /// Opens `node`, copied first where it is to be written.
    pub fn open_node(
        self: &Arc<Self>,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
    ) -> Result<Opened> {
        let writes = flags.write() || flags.truncate();
        let part = match writes {
            true => {
                self.writable()?;
                let bytes = if flags.truncate() {
                    Bytes::Emptied
                } else {
                    Bytes::All
                };
                let parts = self.parts(node)?;
                match (parts.upper, parts.is_merged()) {
                    (Some(part), false) => part,
                    _ => {
                        let _change = self.change();
                        self.copy_up(node, bytes)?
                    }
                }
            }
            false => {
                let parts = self.parts(node)?;
                // The bytes of a copy may be a lower file's.
                match parts.lowers.last() {
                    Some(bytes) => *bytes,
                    None => parts.top()?,
                }
            }
        };
        let fs = self.fs(part);
        let is_upper = part.layer == 0 && self.settings.upper;
        let opened = match is_upper {
            true => fs.open(caller, part.node, flags)?,
            false => self.as_mounter(|| fs.open(caller, part.node, flags))?,
        };
        self.opened(node, part, flags, opened)
    }
}

impl OverlayFile {
    /// Goes on as the copy, if there is one by now.
    fn rise(&self) -> Result<()> {
        if !self.may_rise || self.copy.get().is_some() {
            return Ok(());
        }
        let part = match self.core.known(self.node, |known| known.parts.clone()) {
            Ok(parts) => match (parts.upper, parts.is_merged()) {
                (Some(part), false) => part,
                // The bytes are the lower file's yet.
                _ => return Ok(()),
            },
            Err(error) if error.errno() == Errno::ESTALE => return Ok(()),
            Err(error) => return Err(error),
        };
        let gone = OpenFlags::TRUNCATE
            .with(OpenFlags::EXCLUSIVE)
            .with(OpenFlags::LENDS);
        let flags = self.flags.without(gone);
        let open = || {
            let opened = self.core.fs(part).open(&Caller::SYSTEM, part.node, flags)?;
            Ok::<_, culvert::Error>((part, self.core.driven(part, opened)?))
        };
        // Whoever has it open had the right to open it.
        let (_, copy) = self.copy.get_or_try_init(|| self.core.elevated(open))?;
        if self.is_shared.load(Acquire) {
            copy.shared();
        }
        Ok(())
    }
}

impl Drop for OverlayFile {
    fn drop(&mut self) {
        self.core.give_back(self.core.nodes.unpin(self.pinned));
    }
}

impl FileLayer for OverlayFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        match self.copy.get() {
            Some((_, copy)) => &**copy,
            None => &*self.inner,
        }
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        let part = self.copy.get().map_or(self.part, |copy| copy.0);
        let parts = super::state::Parts {
            upper: None,
            lowers: [part].into(),
        };
        self.core.shown(self.node, &parts, attributes)
    }

    fn around<T>(
        &self,
        _: Operation,
        _: Option<&Caller<'_>>,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.rise()?;
        work()
    }

    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        self.rise()?;
        // Those of a copy may be others than those of what has the bytes.
        let is_lower = self.part.layer > 0 || !self.core.settings.upper;
        if is_lower && self.copy.get().is_none() {
            let parts = self.core.parts(self.node);
            if parts.is_ok_and(|parts| parts.top().is_ok_and(|top| top.layer < self.part.layer)) {
                return self.core.attributes(self.node);
            }
        }
        Ok(self.seen(caller, self.inner().attributes(caller)?))
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        if self.may_rise && self.copy.get().is_none() {
            return self.core.set_attributes(caller, self.node, changes);
        }
        Ok(self.seen(caller, self.inner().set_attributes(caller, changes)?))
    }

    fn touches_data(&self) -> bool {
        self.may_rise
    }

    fn may_be_passed(&self) -> bool {
        !self.may_rise && self.inner().may_be_passed()
    }

    fn shared(&self) {
        self.is_shared.store(true, Release);
        self.inner().shared();
    }
}

impl Core {
    /// Makes `changes` to `node`, which is copied first.
    pub fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.writable()?;
        self.may_set(caller, node, changes)?;
        let parts = self.parts(node)?;
        let bytes = match changes.size {
            Some(0) => Bytes::Emptied,
            Some(_) => Bytes::All,
            None => Bytes::Wanted,
        };
        let is_ready = parts.upper.is_some() && (changes.size.is_none() || !parts.is_merged());
        let part = match parts.upper.filter(|_| is_ready) {
            Some(part) => part,
            None => {
                let _change = self.change();
                self.copy_up(node, bytes)?
            }
        };
        self.fs(part)
            .change_attributes(caller, part.node, changes)?;
        self.attributes(node)
    }

    /// Whether `caller` may make `changes` to `node`, so that nothing is copied for who may not
    /// (`setattr_prepare`, fs/attr.c): the upper layer judges the rest.
    fn may_set(&self, caller: &Caller<'_>, node: Node, changes: &SetAttributes) -> Result<()> {
        let parts = self.parts(node)?;
        if !self.capabilities.checks_permissions || parts.upper.is_some() {
            return Ok(());
        }
        if changes.size.is_some() {
            self.access(caller, node, culvert::Access::WRITE)?;
        }
        let times = (changes.atime.is_some() || changes.mtime.is_some()) && !changes.touch;
        let needs_owner = changes.permissions.is_some() || times;
        let found = self.attributes(node)?;
        match needs_owner && !caller.is_owner(found.uid) {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }
}
