//! A service: its settings, and the listener.

use crate::clients::{Clients, Peer};
use crate::files::Files;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::remote::{Remote, Secret};
use crate::socket::Listener;
use crate::tls::{Cover, Identity};
use crate::workers::{Shared, serve};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::Timespec;
use rustix::io::{Errno, write};
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// The numbers of the listening socket and of the stopper among those of clients, which begin
/// behind them.
const LISTENER: u64 = 0;
const STOP: u64 = u64::MAX;
const HOSTS: u64 = u64::MAX - 1;
/// How often the listener looks for clients to send away.
const ROUND: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// No descriptor is left.
const WANTING: [i32; 2] = [Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];

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
    /// None: all positions are asked for.
    memory: Option<Arc<Memory>>,
    /// Where writers of other hosts connect, and the secret that they know.
    hosts: Option<(TcpListener, Secret, Option<Identity>)>,
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
        let memory = Memory::new().ok().map(Arc::new);
        Ok(Self {
            listener,
            files: Files::new(settings.files, memory.clone()),
            memory: memory.clone(),
            hosts: None,
            shared: Arc::new(Shared {
                memory,
                epoll,
                clients: Clients::new(settings.clients),
                queue: Queue::new(settings.queue.max(1)),
                stop,
            }),
            settings,
        })
    }

    /// Serves writers of other hosts too, who know `secret` and connect to `listener`, by TLS if
    /// there is an `identity`. Turns have numbers of this `epoch`.
    pub fn serve_hosts(
        &mut self,
        listener: TcpListener,
        secret: Secret,
        identity: Option<Identity>,
        epoch: u64,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(HOSTS);
        epoll::add(&self.shared.epoll, &listener, data, epoll::EventFlags::IN)?;
        self.files.begin_epoch(epoch);
        self.hosts = Some((listener, secret, identity));
        Ok(())
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves until it is stopped, or has had no client for as long as the settings say and is not
    /// needed, or cannot be found any more.
    /// `is_needed`: whether somebody may come yet, who is not there now.
    pub fn run(self, is_needed: impl Fn() -> bool) -> io::Result<()> {
        more_descriptors();
        let (shared, files) = (&self.shared, &self.files);
        std::thread::scope(|scope| {
            // Until the files are let go of.
            let lives = self.memory.as_ref().map(|memory| live(scope, memory));
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
            drop(lives);
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
                    HOSTS => admitted = self.admit_host(),
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
            if shared.clients.close_idle(now, self.settings.idle) > 0 {
                last_had = now;
            }
            let alone = now.saturating_duration_since(last_had);
            if self.settings.leave.is_some_and(|leave| alone >= leave) {
                if !self.listener.is_there() || !is_needed() {
                    return Ok(());
                }
                last_had = now;
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
        self.shared.welcome(Peer::new(socket, None));
        true
    }

    /// Takes in who has connected from another host; he has to show that he knows the secret.
    fn admit_host(&self) -> bool {
        let Some((listener, secret, identity)) = &self.hosts else {
            return true;
        };
        let is_wanting = |error: &io::Error| matches!(error.raw_os_error(), Some(code) if WANTING.contains(&code));
        let accepted = match listener.accept() {
            Err(error) if is_wanting(&error) && self.shared.clients.close_oldest() => {
                listener.accept()
            }
            accepted => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                // Else an answer waits for the acknowledgement of the last one.
                if socket.set_nodelay(true).is_ok()
                    && socket.set_nonblocking(true).is_ok()
                    && let Ok(cover) = identity.as_ref().map(Cover::new).transpose()
                {
                    let remote = Remote::new(Arc::clone(secret), cover);
                    self.shared.welcome(Peer::new(socket.into(), Some(remote)));
                }
                true
            }
            Err(error) => !is_wanting(&error),
        }
    }
}

/// A thread by which the service lives, until what is returned is dropped. Where there can be none,
/// writers ask for each position.
fn live<'scope, 'of: 'scope>(
    scope: &'scope Scope<'scope, 'of>,
    memory: &'scope Memory,
) -> Sender<()> {
    let ((lives, ends), (begins, begun)) = (channel::<()>(), channel::<()>());
    scope.spawn(move || {
        let _life = memory.live();
        drop(begins);
        let _ = ends.recv();
    });
    let _ = begun.recv();
    lives
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Kind;
    use culvert_sync_wire::{ANSWER, Answer, Ask, FileId, Request};
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};
    use rustix::net::{connect, recv, send, socket};
    use std::os::fd::OwnedFd;
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
            std::fs::create_dir_all(path.join("file")).unwrap();
            for name in [culvert_sync_wire::APPENDS, culvert_sync_wire::HOLDER] {
                std::fs::File::create(path.join("file").join(name)).unwrap();
            }
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
                    Some(Answer::Held(turn, _)) => turn,
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
                                    let Some(Answer::Held(turn, _)) = writer.ask(file, hold) else {
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
        assert!(Listener::answers(&place.socket(), Kind::Service));
        let again = Listener::new(&place.socket()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        // As if it had been killed: the kernel has closed it, and the socket's name is left.
        std::fs::rename(place.socket(), place.0.join("kept")).unwrap();
        drop(first);
        std::fs::rename(place.0.join("kept"), place.socket()).unwrap();
        assert!(!Listener::answers(&place.socket(), Kind::Service));
        // Who waits to serve there keeps others away, and takes its place when it is time.
        let waits = Listener::reserve(&place.socket()).unwrap();
        let again = Listener::new(&place.socket()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        assert!(!Listener::answers(&place.socket(), Kind::Service));
        let next = waits.listen(Kind::Service).unwrap();
        assert!(Listener::answers(&place.socket(), Kind::Service));
        drop(next);
    }

    #[test]
    fn one_that_is_not_found_any_more_ends_and_leaves_the_next_ones_socket() {
        let place = Place::new("removed");
        let listener = || Listener::new(&place.socket()).unwrap();
        let settings = Settings {
            leave: Some(Duration::ZERO),
            ..Settings::default()
        };
        let service = Service::new(listener(), settings).unwrap();
        // As who empties the whole directory.
        for name in ["socket", "socket.lock"] {
            std::fs::remove_file(place.0.join(name)).unwrap();
        }
        let next = listener();
        service.run(|| true).unwrap();
        assert!(next.is_there());
        drop(next);
        assert!(!place.socket().exists());
    }
}
