//! Drivers of ours behind our own server, in this process.

use crate::channel::{End, Line};
pub use crate::hostile::server::settings;
use culvert::FileSystem;
use culvert_client::{FuseFs, Settings};
use culvert_server::{RequestChannel, Session};
use culvert_wire::Message;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
};

/// Requests on their way.
#[derive(Default)]
struct Queue {
    requests: Mutex<(VecDeque<Vec<u8>>, bool)>,
    more: Condvar,
}

impl Queue {
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut requests = self.requests.lock().expect("no panic");
        if requests.1 {
            return Err(io::ErrorKind::NotConnected.into());
        }
        requests.0.push_back(bytes.to_vec());
        self.more.notify_one();
        Ok(())
    }

    fn end(&self) {
        self.requests.lock().expect("no panic").1 = true;
        self.more.notify_all();
    }
}

/// The server's end.
#[derive(Clone)]
struct Requests {
    queue: Arc<Queue>,
    line: Arc<Line>,
}

impl culvert_server::Channel for Requests {
    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let mut bytes = vec![0; message.length()];
        message.copy_to(&mut bytes).expect("as long as it says");
        self.line.receive(&bytes);
        Ok(())
    }

    fn owned(&self) -> io::Result<Box<dyn culvert_server::Channel + Send>> {
        Ok(Box::new(self.clone()))
    }
}

impl RequestChannel for Requests {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut requests = self.queue.requests.lock().expect("no panic");
        loop {
            if let Some(bytes) = requests.0.pop_front() {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                return Ok(bytes.len());
            }
            if requests.1 {
                return Ok(0);
            }
            requests = self.queue.more.wait(requests).expect("no panic");
        }
    }

    fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
        Ok(Box::new(self.clone()))
    }
}

/// A driver behind our server, and clients of it.
pub struct Served {
    pub line: Arc<Line>,
    queue: Arc<Queue>,
    server: Option<JoinHandle<()>>,
}

impl Served {
    /// `filesystem` behind the server with these settings.
    pub fn with(filesystem: Box<dyn FileSystem>, settings: culvert_server::Settings) -> Self {
        let queue = Arc::new(Queue::default());
        let to = Arc::clone(&queue);
        let line = Line::new(Box::new(move |bytes| to.put(bytes)), 1 << 20, true);
        let requests = Requests {
            queue: Arc::clone(&queue),
            line: Arc::clone(&line),
        };
        let server = thread::spawn(move || {
            let session = Session::negotiate(filesystem, settings, &requests);
            session
                .expect("INIT is agreed on")
                .serve(Box::new(requests));
        });
        line.begin();
        Self {
            line,
            queue,
            server: Some(server),
        }
    }

    /// The same with several threads.
    pub fn new(filesystem: Box<dyn FileSystem>) -> Self {
        let settings = culvert_server::Settings {
            threads: 4,
            without: vec!["stay-awake".into()],
            ..culvert_server::Settings::default()
        };
        Self::with(filesystem, settings)
    }

    /// One more client.
    pub fn client(&self) -> FuseFs {
        self.client_with(settings())
    }

    pub fn client_with(&self, settings: Settings) -> FuseFs {
        let end = End(Arc::clone(&self.line));
        FuseFs::new(Box::new(end), settings).expect("a version in common")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.queue.end();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}
