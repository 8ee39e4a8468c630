//! A server that answers as it is told, at once.

use crate::channel::{End, Line};
use culvert_client::{FuseFs, Settings};
use culvert_wire::{
    MAJOR, NEWEST_MINOR, Operation, Plain, Protocol, Request,
    structures::{InHeader, InitOut, OutHeader},
};
use std::sync::{Arc, OnceLock};

/// Of a mount that modes judge, for everybody.
pub fn settings() -> Settings {
    Settings {
        allow_other: true,
        default_permissions: true,
        ..Settings::default()
    }
}

/// The body of a reply, or its errno.
pub type Replied = Result<Vec<u8>, i32>;

pub fn replied(bytes: &[u8]) -> Replied {
    Ok(bytes.to_vec())
}

/// The server.
pub struct Server {
    pub line: Arc<Line>,
}

impl Server {
    /// One that replies `answer`, or nothing.
    pub fn new(
        answer: impl Fn(&InHeader, &Operation<'_>) -> Option<Replied> + Send + Sync + 'static,
    ) -> Self {
        let init = InitOut {
            major: MAJOR,
            minor: NEWEST_MINOR,
            flags: u32::MAX,
            flags2: u32::MAX,
            max_write: 1 << 20,
            max_pages: 256,
            ..InitOut::default()
        };
        Self::with(init, answer)
    }

    /// The same, which answers `init` to INIT.
    pub fn with(
        init: InitOut,
        answer: impl Fn(&InHeader, &Operation<'_>) -> Option<Replied> + Send + Sync + 'static,
    ) -> Self {
        let line: Arc<OnceLock<Arc<Line>>> = Arc::default();
        let back = Arc::clone(&line);
        let protocol = Protocol::with_server(init.major, init.minor, culvert_wire::InitFlags::NONE);
        let protocol = protocol.unwrap_or(Protocol::UNNEGOTIATED);
        let send = move |bytes: &[u8]| {
            let header = InHeader::from_prefix(bytes);
            let decoded = Request::decode(bytes, &protocol);
            let reply = match decoded.as_ref().map(|request| request.operation) {
                Ok(Operation::Init { .. }) => Some(Ok(init.bytes().to_vec())),
                Ok(operation) => answer(&header, &operation),
                Err(error) => panic!("a request that is none: {error}, {header:?}"),
            };
            if let (Some(reply), Some(line)) = (reply, back.get()) {
                let (error, body) = match reply {
                    Ok(body) => (0, body),
                    Err(error) => (-error, Vec::new()),
                };
                let out = OutHeader {
                    len: (16 + body.len()) as u32,
                    error,
                    unique: header.unique,
                };
                line.receive(&[out.bytes(), &body].concat());
            }
            Ok(())
        };
        let made = Line::new(Box::new(send), 1 << 20, true);
        let _ = line.set(Arc::clone(&made));
        made.begin();
        Self { line: made }
    }

    pub fn client(&self) -> FuseFs {
        self.client_with(settings())
    }

    pub fn client_with(&self, settings: Settings) -> FuseFs {
        let end = End(Arc::clone(&self.line));
        FuseFs::new(Box::new(end), settings).expect("a version in common")
    }
}
