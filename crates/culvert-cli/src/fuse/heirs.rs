//! What programs leave that die: their slots are freed, and what they had open is released.

use super::left;
use culvert_client::Estate;
use culvert_slots::{Channel, Client};
use culvert_sys::{OwnedFd, process};
use std::{
    collections::VecDeque,
    ffi::{CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// How many programs are seen to at once; each may wait for a request that the server has in hand.
const MOST: usize = 16;

/// Whoever does it.
pub struct Heirs(Arc<Work>);

struct Work {
    client: Arc<Client>,
    bell: Arc<OwnedFd>,
    directory: CString,
    /// Since the server has answered INIT.
    estate: Mutex<Option<Arc<Estate>>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Programs that are to be seen to, by the identities that they have told.
    identities: VecDeque<u64>,
    /// Those that are seen to now.
    under_way: Vec<u64>,
    /// How many threads take from there, until there are none.
    threads: usize,
}

impl Queue {
    fn has(&self, identity: u64) -> bool {
        self.identities.contains(&identity) || self.under_way.contains(&identity)
    }
}

impl Heirs {
    /// For the mount whose slots `client` uses.
    pub fn new(client: Arc<Client>, bell: Arc<OwnedFd>, directory: CString) -> Self {
        Self(Arc::new(Work {
            client,
            bell,
            directory,
            estate: Mutex::default(),
            queue: Mutex::default(),
        }))
    }

    /// The process that has told of itself by `identity` is gone, or in another PID namespace. A
    /// thread of its own waits for what the server has in hand, where there is anything.
    pub fn died(&self, identity: u64) {
        let work = &self.0;
        // It may have told of itself several times, also just before it died.
        if locked(&work.queue).has(identity) {
            return;
        }
        work.client.area().free_orphans();
        let has_left = work.client.has_left(identity);
        let may_share = left::has_shares(&work.client, identity)
            || culvert_client::are_shared(Channel::words(&*work.client));
        if !has_left && !may_share {
            left::end_process(work.client.area(), identity, true);
            return;
        }
        let mut queue = locked(&work.queue);
        queue.identities.push_back(identity);
        if queue.threads == MOST {
            return;
        }
        let heir = work.clone();
        match thread::Builder::new().spawn(move || heir.see_to_all()) {
            Ok(_) => queue.threads += 1,
            // Another one takes it.
            Err(_) if queue.threads > 0 => {}
            Err(_) => {
                let identities = std::mem::take(&mut queue.identities);
                drop(queue);
                for identity in identities {
                    work.free(identity);
                }
            }
        }
    }
}

impl Work {
    fn see_to_all(&self) {
        loop {
            let mut queue = locked(&self.queue);
            let Some(identity) = queue.identities.pop_front() else {
                queue.threads -= 1;
                return;
            };
            queue.under_way.push(identity);
            drop(queue);
            match self.estate() {
                Some(estate) => {
                    let shares = left::end_shares(&self.client, identity);
                    self.client.bury(identity, &*estate);
                    left::close(&self.client, &estate, shares);
                    let mount = Path::new(OsStr::from_bytes(self.directory.to_bytes()));
                    left::end_unheld(&self.client, &estate, mount);
                    left::end_process(self.client.area(), identity, true);
                }
                None => self.free(identity),
            }
            let mut queue = locked(&self.queue);
            queue.under_way.retain(|one| *one != identity);
        }
    }

    /// Who releases what is left; none where that cannot be now.
    fn estate(&self) -> Option<Arc<Estate>> {
        let mut known = locked(&self.estate);
        if known.is_none() {
            let owner = (process::geteuid(), process::getegid());
            let channel = Client::open(&self.directory, None).ok()?;
            *known = Some(Arc::new(Estate::new(Box::new(channel), owner).ok()?));
        }
        known.clone()
    }

    /// Its slots are free; what it had open stays open at the server.
    fn free(&self, identity: u64) {
        self.client.area().died(identity, &*self.bell);
        left::end_process(self.client.area(), identity, false);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
