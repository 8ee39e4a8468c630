//! What programs leave that die: their slots are freed, and what they had open is released.

use super::left;
use culvert_client::Estate;
use culvert_slots::Client;
use culvert_sys::{OwnedFd, process};
use std::{
    ffi::CString,
    sync::{Arc, OnceLock},
    thread,
};

/// Whoever does it.
pub struct Heirs {
    client: Arc<Client>,
    bell: Arc<OwnedFd>,
    directory: CString,
    /// Since the server has answered INIT.
    estate: Arc<OnceLock<Option<Estate>>>,
}

impl Heirs {
    /// For the mount whose slots `client` uses.
    pub fn new(client: Arc<Client>, bell: Arc<OwnedFd>, directory: CString) -> Self {
        let estate = Arc::default();
        Self {
            client,
            bell,
            directory,
            estate,
        }
    }

    /// The process that has told of itself by `identity` is gone, or in another PID namespace. A
    /// thread of its own waits for what the server has in hand, where there is anything.
    pub fn died(&self, identity: u64) {
        if !self.client.has_left(identity) {
            left::end_process(self.client.area(), identity);
            return;
        }
        let (client, bell) = (self.client.clone(), self.bell.clone());
        let (estate, directory) = (self.estate.clone(), self.directory.clone());
        thread::spawn(move || {
            let owner = (process::geteuid(), process::getegid());
            let open = || {
                let channel = Client::open(&directory, None).ok()?;
                Estate::new(Box::new(channel), owner).ok()
            };
            match estate.get_or_init(open) {
                Some(estate) => client.bury(identity, estate),
                None => client.area().died(identity, &*bell),
            }
            left::end_process(client.area(), identity);
        });
    }
}
