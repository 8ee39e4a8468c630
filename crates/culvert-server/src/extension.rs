//! A session whose kernel answers for it (culvert-extend).

use crate::{channel::RequestChannel, report::report, session::Session};
use culvert::{Caller, Errno, Error, Result as Answered};
use culvert_extend::{Extension, Map, Maps, Paths, Program, module::Attached};
use culvert_wire::{Answer, InitFlags, Operation, structures::InHeader};
use std::{io, os::fd::AsFd, sync::Arc};

/// `O_WRONLY | O_RDWR`.
const WRITES: u32 = 3;

impl Session {
    /// Has the kernel run the extension that was asked for; says so where it cannot, and goes on
    /// without.
    pub(crate) fn extend(&mut self, channel: &dyn RequestChannel) {
        self.load(channel);
        let ready = self.extension.as_ref().map(Extension::memory);
        let memory = ready.or_else(|| self.program.as_ref().map(Attached::memory));
        if let (Some(counters), Some(memory)) = (self.settings.counters, memory) {
            counters.extended(memory);
        }
    }

    fn load(&mut self, channel: &dyn RequestChannel) {
        let parts = &self.settings.extend;
        let (name, made) = if let Some(program) = &self.settings.program {
            let told = self.told(program.maps());
            let made = told.and_then(|paths| Ok((attached(program, channel)?, paths)));
            ("the author's program".to_owned(), made)
        } else if let Some(object) = &parts.object {
            let read = std::fs::read(object).map_err(|error| error.to_string());
            let made = read.and_then(|bytes| {
                let device = channel.device().map_err(|error| error.to_string())?;
                let (attached, maps) =
                    culvert_extend::attach(&bytes, &parts.maps(), device.as_fd())?;
                // Nobody can ask yet: INIT is not answered.
                self.told(&maps).map(|paths| (attached, paths))
            });
            (format!("extend={parts}"), made)
        } else if !parts.is_empty() {
            match self.extension_for(channel) {
                Ok(extension) => self.extension = Some(extension),
                Err(why) => report(format_args!("extend={parts} is not used: {why}")),
            }
            return;
        } else {
            return;
        };
        match made {
            Ok((attached, paths)) => (self.program, self.paths) = (Some(attached), paths),
            Err(why) => report(format_args!("{name} is not used: {why}")),
        }
    }

    /// The driver has put into the maps what is to be there at first; the table of paths, if there
    /// is one.
    fn told(&self, maps: &Maps) -> Result<Option<Paths>, String> {
        let paths = Paths::of(maps)?;
        let told = self.filesystem.extended(Arc::new(Named(maps.clone())));
        told.map_err(|error| format!("the driver: {error}"))?;
        match self.settings.handover.has_keeper() && paths.is_some() {
            // Nobody would know which paths the table has.
            true => Err("paths would be lost with the server (restart)".into()),
            false => Ok(paths),
        }
    }

    fn extension_for(&self, channel: &dyn RequestChannel) -> Result<Extension, String> {
        if self.settings.handover.has_keeper() {
            return Err("what it has answered would be lost with the server (restart)".into());
        }
        if self.protocol.flags.contains(InitFlags::WRITEBACK_CACHE) {
            return Err("with writeback-cache size and times are the kernel's".into());
        }
        let device = channel.device().map_err(|error| error.to_string())?;
        Extension::new(device.as_fd(), &self.settings.extend)
    }

    /// Attributes of `number` that a request has outdated are asked for before the kernel does: the
    /// request that is being answered keeps the node. 0: nobody's.
    pub(crate) fn read_anew(&self, number: u64) {
        let wants = |extension: &&Extension| extension.lacks(number);
        let extension = self.extension.as_ref().filter(wants);
        let Some(extension) = extension.filter(|_| number != 0 && self.validity.attributes > 0)
        else {
            return;
        };
        let before = extension.before();
        let node = self.numbers.node(number);
        if let Ok(found) = self.filesystem.attributes(&Caller::SYSTEM, node) {
            extension.attributes(number, &self.attr_out(&found), &before);
        }
    }

    /// Before it is written to the kernel asks whether a file has capabilities (file_caps), once
    /// for each inode that it has in hand: what there is is found out when it is opened for that.
    pub(crate) fn look_for_capabilities(
        &self,
        header: &InHeader,
        operation: &Operation<'_>,
        answer: &Answer<'_>,
    ) {
        const CAPABILITY: &[u8] = b"security.capability";
        let number = match (operation, answer) {
            (_, Answer::Created { entry, .. }) => entry.nodeid,
            (Operation::Open { open }, Answer::Opened { .. }) if open.flags & WRITES != 0 => {
                header.nodeid
            }
            _ => return,
        };
        let extension = self.extension.as_ref();
        let Some(extension) = extension.filter(|extension| extension.keeps_xattrs()) else {
            return;
        };
        let before = extension.before();
        let node = self.numbers.node(number);
        let found = self.filesystem.get_xattr(&Caller::SYSTEM, node, CAPABILITY);
        if found.is_err_and(|error| error.errno() == Errno::ENODATA) {
            let valid = self.validity_of(node).attributes;
            extension.xattr(number, CAPABILITY, None, valid, &before);
        }
    }

    /// The driver forgets what only the extension's tables have kept.
    pub(crate) fn forget_unkept(&self) {
        let Some(extension) = &self.extension else {
            return;
        };
        for node in extension.over() {
            self.filesystem.forget(self.numbers.node(node), 1);
        }
    }
}

/// Maps for a driver.
struct Named(Maps);

impl Named {
    fn map(&self, name: &str) -> Answered<&Map> {
        let found = self.0.iter().find(|(map, _)| map == name);
        found
            .map(|(_, map)| &**map)
            .ok_or_else(|| Errno::ENXIO.into())
    }
}

fn failed(error: io::Error) -> Error {
    Errno::new(error.raw_os_error().unwrap_or(Errno::EINVAL.raw())).into()
}

fn is_there(there: io::Result<bool>) -> Answered<()> {
    match there {
        Ok(true) => Ok(()),
        Ok(false) => Err(Errno::ENOENT.into()),
        Err(error) => Err(failed(error)),
    }
}

impl culvert::Maps for Named {
    fn sizes(&self, map: &str) -> Answered<[usize; 2]> {
        Ok(self.map(map)?.sizes())
    }

    fn get(&self, map: &str, key: &[u8], value: &mut [u8]) -> Answered<()> {
        is_there(self.map(map)?.read(key, value))
    }

    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> Answered<()> {
        self.map(map)?.put(key, value).map_err(failed)
    }

    fn remove(&self, map: &str, key: &[u8]) -> Answered<()> {
        is_there(self.map(map)?.remove(key))
    }

    fn next(&self, map: &str, key: Option<&[u8]>, next: &mut [u8]) -> Answered<()> {
        is_there(self.map(map)?.next(key, next))
    }
}

/// `program`, which the kernel asks from now on.
fn attached(program: &Program, channel: &dyn RequestChannel) -> Result<Attached, String> {
    let device = channel.device().map_err(|error| error.to_string())?;
    program.attach(device.as_fd())
}
