//! The table of clients: who is connected, whether a worker has him in hand, and when he asked
//! last.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct Client {
    socket: Arc<OwnedFd>,
    /// A worker has it in hand.
    busy: bool,
    /// When it asked last, or came.
    seen: Instant,
}

/// See the module.
pub struct Clients {
    table: Mutex<Table>,
    most: usize,
}

struct Table {
    clients: BTreeMap<u64, Client>,
    next: u64,
}

impl Table {
    fn close_oldest(&mut self) -> bool {
        let idle = self.clients.iter().filter(|(_, client)| !client.busy);
        let oldest = idle.min_by_key(|(_, client)| client.seen);
        let oldest = oldest.map(|(number, _)| *number);
        oldest.is_some_and(|number| self.clients.remove(&number).is_some())
    }
}

impl Clients {
    /// A table for `most` of them.
    pub fn new(most: usize) -> Self {
        Self {
            table: Mutex::new(Table {
                clients: BTreeMap::new(),
                next: 1,
            }),
            most: most.max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in whoever is at the other end of `socket`: the number it has from now on. Where the
    /// table is full, who has not asked for longest goes; where all are being served, nobody comes.
    pub fn admit(&self, socket: OwnedFd, now: Instant) -> Option<(u64, Arc<OwnedFd>)> {
        let mut table = self.lock();
        if table.clients.len() >= self.most && !table.close_oldest() {
            return None;
        }
        let (number, socket) = (table.next, Arc::new(socket));
        table.next += 1;
        let client = Client {
            socket: Arc::clone(&socket),
            busy: false,
            seen: now,
        };
        table.clients.insert(number, client);
        Some((number, socket))
    }

    /// Sends away who has not asked for longest; whether there is one who is not being served.
    pub fn close_oldest(&self) -> bool {
        self.lock().close_oldest()
    }

    /// A worker takes client `number` in hand; none where it is gone.
    pub fn take(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut table = self.lock();
        let client = table.clients.get_mut(&number)?;
        client.busy = true;
        Some(Arc::clone(&client.socket))
    }

    /// Client `number` was answered.
    pub fn answered(&self, number: u64, now: Instant) {
        if let Some(client) = self.lock().clients.get_mut(&number) {
            (client.busy, client.seen) = (false, now);
        }
    }

    /// Client `number` is gone; how many are left.
    pub fn remove(&self, number: u64) -> usize {
        let mut table = self.lock();
        table.clients.remove(&number);
        table.clients.len()
    }

    /// Sends away who has not asked for `longest`; how many are left.
    pub fn close_idle(&self, now: Instant, longest: Duration) -> usize {
        let mut table = self.lock();
        let stays =
            |client: &Client| client.busy || now.saturating_duration_since(client.seen) < longest;
        table.clients.retain(|_, client| stays(client));
        table.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn the_oldest_idle_client_makes_room() {
        let clients = Clients::new(2);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (one, _) = clients.admit(socket(), at(0)).unwrap();
        let (two, _) = clients.admit(socket(), at(1)).unwrap();
        clients.take(one).unwrap();
        clients.answered(one, at(2));
        let (three, _) = clients.admit(socket(), at(3)).unwrap();
        assert!(clients.take(two).is_none());
        // Both are in hand now: there is no room.
        assert!(clients.take(one).is_some() && clients.take(three).is_some());
        assert!(clients.admit(socket(), at(4)).is_none());
        assert!(!clients.close_oldest());
        clients.answered(one, at(5));
        assert!(clients.close_oldest() && clients.take(one).is_none());
    }

    #[test]
    fn idle_clients_are_sent_away_and_busy_ones_stay() {
        let clients = Clients::new(9);
        let start = Instant::now();
        let (one, _) = clients.admit(socket(), start).unwrap();
        let (two, _) = clients.admit(socket(), start).unwrap();
        clients.take(one).unwrap();
        let later = start + Duration::from_secs(60);
        assert_eq!(clients.close_idle(later, Duration::from_secs(60)), 1);
        assert!(clients.take(two).is_none());
        assert_eq!(clients.remove(one), 0);
    }
}
