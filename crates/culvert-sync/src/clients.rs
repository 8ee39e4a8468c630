//! The table of clients: who is connected, whether a worker has him in hand, and when he asked
//! last.

use crate::remote::Remote;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long a connection may stay whose other end has not shown that it knows the secret.
const STRANGER: Duration = Duration::from_secs(5);

/// Who is at the other end of a connection.
pub struct Peer {
    socket: OwnedFd,
    /// On another host.
    pub remote: Option<Mutex<Remote>>,
}

impl Peer {
    /// One at the other end of `socket`.
    pub fn new(socket: OwnedFd, remote: Option<Remote>) -> Self {
        let remote = remote.map(Mutex::new);
        Self { socket, remote }
    }

    /// Whether it is of this user: of this host, or it knows the secret.
    fn is_known(&self) -> bool {
        self.remote.as_ref().is_none_or(|remote| {
            let remote = remote.lock().unwrap_or_else(PoisonError::into_inner);
            remote.is_known()
        })
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct Client {
    peer: Arc<Peer>,
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
    /// Sends away who has not asked for longest, strangers first, or among them alone.
    fn close_oldest(&mut self, strangers: bool) -> bool {
        let idle = self.clients.iter().filter(|(_, client)| !client.busy);
        let each = idle.map(|(number, client)| (number, client.peer.is_known(), client.seen));
        let each = each.filter(|(_, is_known, _)| !(strangers && *is_known));
        let oldest = each.min_by_key(|(_, is_known, seen)| (*is_known, *seen));
        let oldest = oldest.map(|(number, ..)| *number);
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

    /// Takes in `peer`: the number it has from now on. Where the table is full, who has not asked
    /// for longest goes; where all are being served, nobody comes. Strangers have a quarter of it
    /// at most, and go first.
    pub fn admit(&self, peer: Peer, now: Instant) -> Option<(u64, Arc<Peer>)> {
        let mut table = self.lock();
        let is_stranger = |client: &&Client| !client.peer.is_known();
        let too_many = !peer.is_known()
            && table.clients.values().filter(is_stranger).count() >= self.most.div_ceil(4);
        if (too_many || table.clients.len() >= self.most) && !table.close_oldest(too_many) {
            return None;
        }
        let (number, peer) = (table.next, Arc::new(peer));
        table.next += 1;
        let client = Client {
            peer: Arc::clone(&peer),
            busy: false,
            seen: now,
        };
        table.clients.insert(number, client);
        Some((number, peer))
    }

    /// Sends away who has not asked for longest; whether there is one who is not being served.
    pub fn close_oldest(&self) -> bool {
        self.lock().close_oldest(false)
    }

    /// A worker takes client `number` in hand; none where it is gone.
    pub fn take(&self, number: u64) -> Option<Arc<Peer>> {
        let mut table = self.lock();
        let client = table.clients.get_mut(&number)?;
        client.busy = true;
        Some(Arc::clone(&client.peer))
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

    /// Sends away who has not asked for `longest`, and strangers soon; how many are left.
    pub fn close_idle(&self, now: Instant, longest: Duration) -> usize {
        let mut table = self.lock();
        let stays = |client: &Client| {
            let silent = now.saturating_duration_since(client.seen);
            let is_welcome = || silent < STRANGER || client.peer.is_known();
            client.busy || silent < longest && is_welcome()
        };
        table.clients.retain(|_, client| stays(client));
        table.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Peer {
        Peer::new(std::fs::File::open("/dev/null").unwrap().into(), None)
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
    fn strangers_have_a_quarter_and_go_before_others() {
        let clients = Clients::new(8);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let stranger = || Peer {
            remote: Some(Mutex::new(Remote::new(Arc::new(vec![7; 32]), None))),
            ..socket()
        };
        let (known, _) = clients.admit(socket(), at(0)).unwrap();
        let [one, two, three] =
            [1, 2, 3].map(|second| clients.admit(stranger(), at(second)).unwrap().0);
        // It took the place of the first one.
        assert!(clients.take(one).is_none() && clients.take(two).is_some());
        assert!(clients.take(three).is_some());
        // Both are in hand: nobody makes room.
        assert!(clients.admit(stranger(), at(4)).is_none());
        clients.answered(two, at(4));
        clients.answered(three, at(5));
        assert!(clients.close_oldest() && clients.take(two).is_none());
        let minute = Duration::from_secs(60);
        assert_eq!(clients.close_idle(at(9), minute), 2);
        assert_eq!(clients.close_idle(at(10), minute), 1);
        assert!(clients.take(known).is_some());
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
