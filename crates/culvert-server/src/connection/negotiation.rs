//! INIT: what server and kernel agree on.

use crate::{
    cache_timeout,
    capabilities::{self, Situation},
    channel::RequestChannel,
    notifications,
    report::report,
    session::{Session, Watching},
    settings::Settings,
    transport::{Way, readers::MAXIMUM_DATA},
};
use culvert::{Errno, Error, FileSystem, Result};
use culvert_sys::PAGE;
use culvert_wire::{
    Answer, InitFlags, MAJOR, NEWEST_MINOR, Notification, Operation, Protocol, Reply, Request,
    structures::{InitIn, InitOut},
};
use std::io;

impl Session {
    /// Answers INIT on `channel`, so that the mount can be used.
    ///
    /// # Errors
    /// `EPROTO`: the kernel speaks no version that this server does, or not FUSE at all; `EIO`: the
    /// channel broke; `ENODEV`: it ended.
    pub fn negotiate(
        filesystem: Box<dyn FileSystem>,
        settings: Settings,
        channel: &dyn RequestChannel,
    ) -> Result<Self> {
        let watching = Watching::begin(&*filesystem);
        let validity = cache_timeout::chosen(&*filesystem, &settings);
        if let Some(protocol) = settings.handover.protocol() {
            return Self::new(filesystem, settings, protocol, validity, watching)
                .continued(channel);
        }
        let broken = |error: io::Error| Error::because(Errno::EIO, format!("/dev/fuse: {error}"));
        let refused = |text: String| Error::because(Errno::EOPNOTSUPP, text);
        let (way, why) = Way::choose(&settings, channel).map_err(refused)?;
        // Without one the mount is as everybody expects.
        let asked = settings.transport.is_some() && way.make.is_some();
        if settings.trace || asked {
            let space = if why.is_empty() { "" } else { ": " };
            report(format_args!("requests come by {}{space}{why}", way.name));
        }
        let mut situation = Situation::of(&*filesystem, validity, &settings);
        let mut buffer = vec![0; culvert_wire::MINIMUM_BUFFER];
        loop {
            let length = channel.receive(&mut buffer).map_err(broken)?;
            if length == 0 {
                return Err(Error::because(
                    Errno::ENODEV,
                    "the mount ended before it began",
                ));
            }
            let request = Request::decode(&buffer[..length], &Protocol::UNNEGOTIATED);
            let Ok(Request {
                header,
                operation: Operation::Init { init },
                ..
            }) = request
            else {
                return Err(Error::because(
                    Errno::EPROTO,
                    "the first request is not INIT",
                ));
            };
            let answer = |init| {
                let answer = Answer::Init { init };
                let unique = header.unique;
                let reply = Reply { unique, answer }.encode(&Protocol::UNNEGOTIATED);
                let reply = reply.map_err(|_| Error::from(Errno::EPROTO))?;
                channel.send(&reply).map_err(broken)
            };
            if init.major > MAJOR {
                // The kernel asks again with ours.
                answer(InitOut {
                    major: MAJOR,
                    minor: NEWEST_MINOR,
                    ..InitOut::default()
                })?;
                continue;
            }
            // Then names are believed for a second.
            situation.listings_kept &= notifications::tells(watching.observed, init.minor);
            let offered = InitFlags::from_words(init.flags, init.flags2);
            let used = way.capability.as_ref();
            let flags = capabilities::agreed(&situation, offered, used, &settings);
            let Some(protocol) = Protocol::negotiate(init.major, init.minor, flags) else {
                return Err(Error::because(
                    Errno::EPROTO,
                    format!(
                        "the kernel speaks FUSE {}.{}; 7.31 (Linux 5.4) is the oldest that is \
                        served",
                        init.major, init.minor
                    ),
                ));
            };
            if let (Some(word), false) = (settings.transport, flags.contains(way.flag())) {
                let text = "the kernel does not offer it for this mount";
                return Err(refused(format!("transport={word}: {text}")));
            }
            let agreed = init_out(&init, &protocol, settings.request_timeout);
            let mut session = Self::new(filesystem, settings, protocol, validity, watching);
            // Before the kernel asks for anything else.
            session.extend(channel);
            answer(agreed)?;
            session.settings.handover.set_protocol(&session.protocol);
            return Ok(session);
        }
    }

    /// Takes up what an earlier server has left, and asks the kernel for the requests that it had
    /// in hand.
    fn continued(self, channel: &dyn RequestChannel) -> Result<Self> {
        self.take_over();
        match self.ask_again(channel) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.leave();
                Err(error)
            }
        }
    }

    /// Asks the kernel for the requests that an earlier server had in hand.
    fn ask_again(&self, channel: &dyn RequestChannel) -> Result<()> {
        let resend = Notification::Resend {}.encode(&self.protocol);
        let resend = resend.map_err(|_| Error::from(Errno::EPROTO))?;
        channel.send(&resend).map_err(|error| {
            let cause = format!("the kernel does not send requests again: {error}");
            Error::because(Errno::EIO, cause)
        })
    }
}

/// The server's part of INIT.
fn init_out(init: &InitIn, protocol: &Protocol, timeout: Option<u16>) -> InitOut {
    let (flags, flags2) = protocol.flags.words();
    let has = |flag| protocol.flags.contains(flag);
    let max_write = match has(InitFlags::MAX_PAGES) {
        true => MAXIMUM_DATA,
        // `FUSE_DEFAULT_MAX_PAGES_PER_REQ`.
        false => 32 * PAGE,
    };
    InitOut {
        major: MAJOR,
        minor: protocol.minor,
        max_readahead: init.max_readahead,
        flags,
        flags2,
        // Linux's own defaults are 12 and 9: too few for several readers.
        max_background: 64,
        congestion_threshold: 48,
        max_write: max_write as u32,
        time_gran: 1,
        max_pages: (max_write / PAGE) as u16,
        // Backing files on a stacked file system are refused; in exchange this mount may lie below
        // one.
        max_stack_depth: u32::from(has(InitFlags::PASSTHROUGH)),
        request_timeout: timeout
            .filter(|_| has(InitFlags::REQUEST_TIMEOUT))
            .unwrap_or(0),
        ..InitOut::default()
    }
}
