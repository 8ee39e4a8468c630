//! A session whose kernel answers for it (culvert-extend).

use crate::{channel::RequestChannel, report::report, session::Session};
use culvert_extend::Metadata;
use culvert_wire::InitFlags;
use std::os::fd::AsFd;

impl Session {
    /// Has the kernel run the extension that was asked for; says so where it cannot, and goes on
    /// without.
    pub(crate) fn extend(&mut self, channel: &dyn RequestChannel) {
        if !self.settings.extend {
            return;
        }
        match self.extension_for(channel) {
            Ok(extension) => self.extension = Some(extension),
            Err(why) => report(format_args!("extend=metadata is not used: {why}")),
        }
    }

    fn extension_for(&self, channel: &dyn RequestChannel) -> Result<Metadata, String> {
        if self.settings.handover.has_keeper() {
            return Err("what it has answered would be lost with the server (restart)".into());
        }
        if self.protocol.flags.contains(InitFlags::WRITEBACK_CACHE) {
            return Err("with writeback-cache size and times are the kernel's".into());
        }
        let device = channel.device().map_err(|error| error.to_string())?;
        Metadata::new(device.as_fd())
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
