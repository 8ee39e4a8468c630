//! A connection: INIT, then requests until it ends.

mod negotiation;

use crate::{
    buffer, capabilities,
    channel::RequestChannel,
    notifications::Notifier,
    report::report,
    session::Session,
    transport::{
        Transport, Way,
        readers::{self, Readers},
    },
};
use culvert::{Change, Observed};
use std::{io, sync::atomic::Ordering::Relaxed, thread};

/// Why [`Session::serve`] returned.
#[derive(Debug)]
pub enum Ended {
    /// The mount is gone.
    Unmounted,
    /// A channel broke.
    Broken(io::Error),
}

impl Session {
    /// Answers requests until the mount is gone. `first` is the channel that INIT came by.
    ///
    /// When it ends otherwise, and there is a hand-over, the session is to be left
    /// ([`Session::leave`]), not dropped.
    pub fn serve(&self, first: Box<dyn RequestChannel>) -> Ended {
        buffer::keep_together();
        let mut channels = readers::others(self, &*first);
        let (notifier, transport) = match self.prepare(&*first) {
            Ok(prepared) => prepared,
            Err(error) => return Ended::Broken(error),
        };
        channels.push(first);
        // By the device come only FORGET and INTERRUPT where there is another transport: nobody
        // waits for them, and a thread that stays awake would take the processor from those who do
        // wait.
        let stays_awake = transport.is_none() && !self.settings.without(capabilities::STAY_AWAKE);
        let readers = Box::new(Readers::new(self, channels, stays_awake));
        let transports = transport.into_iter().chain([readers as Box<dyn Transport>]);
        let transports: Vec<_> = transports.collect();
        let ended = thread::scope(|scope| {
            if let Some(channel) = notifier {
                scope.spawn(move || self.notify(&*channel));
            }
            scope.spawn(|| self.interrupts.watch());
            if let Some(extension) = &self.extension {
                scope.spawn(|| extension.write_log());
            }
            let threads: Vec<_> = transports
                .iter()
                .flat_map(|transport| transport.start(self, scope))
                .collect();
            let broken = threads
                .into_iter()
                .filter_map(|thread| thread.join().ok()?.err());
            let ended = broken.last().map_or(Ended::Unmounted, Ended::Broken);
            for transport in &transports {
                transport.end();
            }
            if let Some(notifications) = &self.notifications {
                notifications.end();
            }
            if let Some(extension) = &self.extension {
                extension.end_log();
            }
            self.interrupts.close();
            ended
        });
        if matches!(ended, Ended::Unmounted) {
            self.filesystem.finish();
        }
        ended
    }

    /// The channel of the thread that tells the kernel of changes, and the transport besides
    /// channels that are read.
    #[expect(clippy::type_complexity, reason = "one caller, two values")]
    fn prepare(
        &self,
        first: &dyn RequestChannel,
    ) -> io::Result<(Option<Box<dyn RequestChannel>>, Option<Box<dyn Transport>>)> {
        // Whoever reads from a channel, all may write to it: a hand-over's cost no descriptor.
        let kept = self.settings.handover.channels().next();
        let notifier = self.notifications.as_ref().map(|_| match kept {
            Some(channel) => Ok(Box::new(channel) as Box<dyn RequestChannel>),
            None => first.another(),
        });
        let notifier = notifier.transpose()?;
        let make = Way::agreed(&self.protocol).make;
        let transport = make.map(|make| make(self, first)).transpose()?;
        Ok((notifier, transport))
    }

    /// One thread: tells the kernel of changes.
    fn notify(&self, channel: &dyn RequestChannel) {
        let Some(notifications) = &self.notifications else {
            return;
        };
        let mut notifier = Notifier::new(channel, self.protocol, self.numbers)
            .with_extension(self.extension.as_ref(), self.paths.as_ref());
        let mut observed = self.observed;
        while let Err(error) = notifications.run(&*self.filesystem, observed, &mut notifier) {
            report(format_args!("changes are not observed any more: {error}"));
            self.tells.store(false, Relaxed);
            notifier.tell([Change::Everything].into());
            if !matches!(observed, Observed::Descriptor(_)) {
                break;
            }
            observed = Observed::Told;
        }
    }
}
