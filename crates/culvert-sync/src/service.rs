//! The listener and the workers.

use crate::clients::Clients;
use crate::files::Files;
use crate::queue::Queue;
use crate::socket::Listener;
use culvert_sync_wire::{Answer, Ask, LONGEST_PATH, REQUEST, Request};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::Timespec;
use rustix::io::{Errno, write};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The numbers of the listening socket and of the stopper among those of clients, which begin
/// behind them.
const LISTENER: u64 = 0;
const STOP: u64 = u64::MAX;
/// How often the listener looks for clients to send away.
const ROUND: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// How long the listener rests when no descriptor is left for who has connected.
const REST: Duration = Duration::from_millis(10);

/// How a service works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Workers.
    pub workers: usize,
    /// Most clients that are connected.
    pub clients: usize,
    /// Most files that are held.
    pub files: usize,
    /// Requests that wait for a worker at most.
    pub queue: usize,
    /// Who has not asked for so long is sent away, and comes again when it has to.
    pub idle: Duration,
    /// The service ends when it has had no client for so long; none: never.
    pub leave: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 4,
            clients: 1024,
            files: 1024,
            queue: 4096,
            idle: Duration::from_secs(60),
            leave: None,
        }
    }
}

/// A service.
pub struct Service {
    listener: Listener,
    settings: Settings,
    files: Arc<Files>,
    shared: Arc<Shared>,
}

/// What the listener, the workers and those who wait for locks use.
struct Shared {
    epoll: OwnedFd,
    clients: Clients,
    queue: Queue<u64>,
    stop: OwnedFd,
}

/// Ends a service from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// [`Service::run`] returns.
    pub fn stop(&self) {
        let _ = write(&self.0.stop, &1u64.to_ne_bytes());
    }
}

impl Service {
    /// One that listens at `listener`.
    pub fn new(listener: Listener, settings: Settings) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (read, data) = (epoll::EventFlags::IN, epoll::EventData::new_u64);
        epoll::add(&epoll, &listener.socket, data(LISTENER), read)?;
        epoll::add(&epoll, &stop, data(STOP), read)?;
        Ok(Self {
            listener,
            files: Files::new(settings.files),
            shared: Arc::new(Shared {
                epoll,
                clients: Clients::new(settings.clients),
                queue: Queue::new(settings.queue.max(1)),
                stop,
            }),
            settings,
        })
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves until it is stopped, or has had no client for as long as the settings say.
    /// `is_needed`: whether somebody may come yet, who is not there now.
    pub fn run(self, is_needed: impl Fn() -> bool) -> io::Result<()> {
        more_descriptors();
        let (shared, files) = (&self.shared, &self.files);
        std::thread::scope(|scope| {
            for _ in 0..self.settings.workers.max(1) {
                scope.spawn(|| {
                    while let Some(client) = shared.queue.pop() {
                        serve(shared, files, client);
                    }
                });
            }
            scope.spawn(|| files.sweep());
            let listened = self.listen(&is_needed);
            shared.queue.close();
            files.end();
            listened
        })
    }

    fn listen(&self, is_needed: &impl Fn() -> bool) -> io::Result<()> {
        let shared = &self.shared;
        let mut events = Vec::with_capacity(64);
        let (mut last_had, mut looked) = (Instant::now(), Instant::now());
        loop {
            events.clear();
            match epoll::wait(
                &shared.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&ROUND),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut admitted = true;
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => admitted = self.admit(),
                    client => shared.queue.push(client),
                }
            }
            if !admitted {
                std::thread::sleep(REST);
            }
            let now = Instant::now();
            if now.saturating_duration_since(looked).as_secs() < ROUND.tv_sec as u64 {
                continue;
            }
            looked = now;
            if shared.clients.close_idle(now, self.settings.idle) > 0 || is_needed() {
                last_had = now;
            }
            let alone = now.saturating_duration_since(last_had);
            if self.settings.leave.is_some_and(|leave| alone >= leave) {
                return Ok(());
            }
        }
    }

    /// Takes in who has connected: none but this user. Whether no descriptor was wanting: where one
    /// is, an idle client makes room.
    fn admit(&self) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = || accept_with(&self.listener.socket, flags);
        let is_wanting = |errno| matches!(errno, Errno::MFILE | Errno::NFILE);
        let accepted = match accept() {
            Err(errno) if is_wanting(errno) && self.shared.clients.close_oldest() => accept(),
            accepted => accepted,
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(errno) => return !is_wanting(errno),
        };
        let peer = rustix::net::sockopt::socket_peercred(&socket);
        if !peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid()) {
            return true;
        }
        if let Some((number, socket)) = self.shared.clients.admit(socket, Instant::now()) {
            let (data, flags) = (epoll::EventData::new_u64(number), awaited());
            if epoll::add(&self.shared.epoll, &socket, data, flags).is_err() {
                self.shared.clients.remove(number);
            }
        }
        true
    }
}

/// Raises the limit of descriptors as far as it may be: each client and each file has one.
fn more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, most);
}

/// One request, and then none until the answer has gone.
fn awaited() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::ONESHOT
}

/// Answers the request of client `number`. It is the worker who reads and understands it, not the
/// listener.
fn serve(shared: &Arc<Shared>, files: &Arc<Files>, number: u64) {
    let Some(socket) = shared.clients.take(number) else {
        return;
    };
    let mut packet = [0; REQUEST + LONGEST_PATH + 1];
    let length = match recv(&*socket, &mut packet, RecvFlags::DONTWAIT) {
        Ok((length, _)) if length > 0 => length,
        Err(Errno::AGAIN | Errno::INTR) => return shared.await_next(number, &socket),
        // It is gone.
        _ => return shared.lose(files, number),
    };
    let Some(request) = Request::decode(&packet[..length]) else {
        return shared.lose(files, number);
    };
    let file = request.file;
    let answer = match request.ask {
        Ask::Append { turn, count, size } => files.append(file, turn, count, size),
        Ask::Release => {
            files.release(file);
            Answer::Done
        }
        Ask::Reach(size) => files.reach(file, size),
        Ask::Hold(path) => {
            let (shared, table) = (Arc::clone(shared), Arc::clone(files));
            let waiter = move |answer| shared.answer(&table, number, &socket, answer);
            return files.hold(file, path, Box::new(waiter));
        }
    };
    shared.answer(files, number, &socket, answer);
}

impl Shared {
    fn answer(&self, files: &Files, number: u64, socket: &OwnedFd, answer: Answer) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // It may come again, or go, as soon as it has the answer.
        self.clients.answered(number, Instant::now());
        match send(socket, &answer.encode(), flags) {
            Ok(_) => self.await_next(number, socket),
            Err(_) => self.lose(files, number),
        }
    }

    fn await_next(&self, number: u64, socket: impl AsFd) {
        self.clients.answered(number, Instant::now());
        let data = epoll::EventData::new_u64(number);
        if epoll::modify(&self.epoll, socket, data, awaited()).is_err() {
            self.clients.remove(number);
        }
    }

    /// Client `number` is gone, or talks nonsense. With the last one all files are let go of.
    fn lose(&self, files: &Files, number: u64) {
        if self.clients.remove(number) == 0 {
            files.release_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_sync_wire::{ANSWER, FileId};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// A place with a container in it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("culvert-service-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("file/meta")).unwrap();
            Self(path.canonicalize().unwrap())
        }

        fn socket(&self) -> PathBuf {
            self.0.join("socket")
        }

        fn file(&self) -> FileId {
            let found = std::fs::metadata(self.0.join("file")).unwrap();
            FileId {
                device: found.dev(),
                inode: found.ino(),
            }
        }

        /// Calls `act` while a service serves.
        fn serve(&self, settings: Settings, act: impl FnOnce(&Self)) {
            let listener = Listener::new(&self.socket()).unwrap();
            let service = Service::new(listener, settings).unwrap();
            let stopper = service.stopper();
            std::thread::scope(|scope| {
                let runs = scope.spawn(|| service.run(|| false));
                act(self);
                stopper.stop();
                runs.join().unwrap().unwrap();
            });
            assert!(!self.socket().exists());
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    struct Writer(OwnedFd);

    impl Writer {
        fn new(path: &Path) -> Self {
            let one = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
            connect(&one, &SocketAddrUnix::new(path).unwrap()).unwrap();
            Self(one)
        }

        fn packet(&self, bytes: &[u8]) -> Option<Answer> {
            send(&self.0, bytes, SendFlags::NOSIGNAL).ok()?;
            let mut answer = [0; ANSWER];
            let length = recv(&self.0, &mut answer, RecvFlags::empty()).ok()?.0;
            Answer::decode(&answer[..length])
        }

        fn ask(&self, file: FileId, ask: Ask<'_>) -> Option<Answer> {
            self.packet(&Request { file, ask }.encode())
        }

        fn append(&self, place: &Place, count: u64) -> u64 {
            let path = place.0.join("file");
            loop {
                let hold = Ask::Hold(path.as_os_str().as_bytes());
                let turn = match self.ask(place.file(), hold) {
                    Some(Answer::Held(turn)) => turn,
                    other => panic!("{other:?}"),
                };
                let size = 0;
                match self.ask(place.file(), Ask::Append { turn, count, size }) {
                    Some(Answer::Position(position)) => return position,
                    Some(Answer::NotHeld) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn no_two_writers_get_the_same_position() {
        Place::new("positions").serve(Settings::default(), |place| {
            // Within one turn: it ends when nobody asks, and nothing is written here that the next
            // one would find.
            let mut all: Vec<(u64, u64)> = std::thread::scope(|scope| {
                let writers: Vec<_> = (1..=4)
                    .map(|count| {
                        scope.spawn(move || {
                            let writer = Writer::new(&place.socket());
                            (0..50)
                                .map(|_| {
                                    let file = place.file();
                                    let path = place.0.join("file");
                                    let hold = Ask::Hold(path.as_os_str().as_bytes());
                                    let Some(Answer::Held(turn)) = writer.ask(file, hold) else {
                                        panic!("not held");
                                    };
                                    // As if the turns were files of their own.
                                    let ask = Ask::Append {
                                        turn,
                                        count,
                                        size: 0,
                                    };
                                    match writer.ask(file, ask) {
                                        Some(Answer::Position(at)) => (turn, at, count),
                                        _ => (turn, u64::MAX, 0),
                                    }
                                })
                                .collect::<Vec<_>>()
                        })
                    })
                    .collect();
                let all = writers.into_iter().flat_map(|one| one.join().unwrap());
                let mut all: Vec<_> = all.filter(|(_, _, count)| *count > 0).collect();
                all.sort_unstable();
                assert!(!all.is_empty());
                for two in all.windows(2) {
                    let ((turn, at, count), (next, then, _)) = (two[0], two[1]);
                    assert!(turn != next || at + count == then, "{two:?}");
                }
                all.into_iter().map(|(turn, at, _)| (turn, at)).collect()
            });
            all.dedup();
            assert!(all.len() >= 4);
        });
    }

    #[test]
    fn who_talks_nonsense_is_sent_away_and_others_stay() {
        Place::new("nonsense").serve(Settings::default(), |place| {
            let (bad, good) = (Writer::new(&place.socket()), Writer::new(&place.socket()));
            for bytes in [&b"x"[..], &[0xff; 48], &[b'C'; 9000]] {
                let bad = Writer::new(&place.socket());
                assert_eq!(bad.packet(bytes), None);
            }
            assert_eq!(bad.packet(b"CvS1"), None);
            assert_eq!(bad.ask(place.file(), Ask::Release), None);
            assert_eq!(good.append(place, 3), 0);
        });
    }

    #[test]
    fn a_client_too_many_takes_the_place_of_an_idle_one() {
        let settings = Settings {
            clients: 2,
            ..Settings::default()
        };
        Place::new("clients").serve(settings, |place| {
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    let writer = Writer::new(&place.socket());
                    let asked = writer.ask(place.file(), Ask::Release);
                    assert_eq!(asked, Some(Answer::Done));
                    writer
                })
                .collect();
            assert_eq!(writers[0].ask(place.file(), Ask::Release), None);
            let asked = writers[2].ask(place.file(), Ask::Release);
            assert_eq!(asked, Some(Answer::Done));
        });
    }

    #[test]
    fn what_is_no_socket_is_not_removed() {
        let place = Place::new("kept");
        std::fs::write(place.socket(), "data").unwrap();
        let refused = Listener::new(&place.socket()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(place.socket()).unwrap(), b"data");
    }

    #[test]
    fn there_is_one_service_for_a_socket_and_a_dead_one_has_a_successor() {
        let place = Place::new("one");
        let first = Listener::new(&place.socket()).unwrap();
        assert!(Listener::answers(&place.socket()));
        let again = Listener::new(&place.socket()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        // As if it had been killed: the kernel has closed it, and the socket's name is left.
        std::fs::rename(place.socket(), place.0.join("kept")).unwrap();
        drop(first);
        std::fs::rename(place.0.join("kept"), place.socket()).unwrap();
        assert!(!Listener::answers(&place.socket()));
        let next = Listener::new(&place.socket()).unwrap();
        assert!(Listener::answers(&place.socket()));
        drop(next);
    }
}
