//! Clients and servers in threads and processes, stopped and killed at random.

extern crate std;
pub(crate) mod deaths;
mod scribbled;
use super::*;
use crate::area::{State, Word};
use crate::identity::Identity;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{AsFd, Errno, OwnedFd, fs};
use std::ffi::CString;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::vec::Vec;
use std::{env, format, process, thread};

const ECHO: u32 = 15;
const FORGET: u32 = 2;
const RELEASE: u32 = 18;

/// A mount directory, removed in the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = env::temp_dir().join(format!("culvert-slots-{name}-{}", process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&place)
            .unwrap();
        let place = Self(std::fs::canonicalize(place).unwrap());
        Area::create(place.opened()).unwrap();
        place
    }

    fn path(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }

    fn opened(&self) -> Opened {
        trust::directory(&self.path(), trust::user()).unwrap()
    }

    fn server(&self) -> (Server, OwnedFd) {
        let bell = open_fifo(&self.opened(), BELL).unwrap();
        let server = Server::new(Area::open(&self.opened()).unwrap(), (1000, 100));
        server.serves();
        (server, bell)
    }

    fn client(&self) -> Client {
        Client::open(&self.path(), None).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn caller() -> Caller {
    let (uid, gid) = (trust::user(), 0);
    let pid = process::id();
    Caller { uid, gid, pid }
}

/// Waits until `bell` can be read, 50 ms at most, and reads a byte.
fn heard(bell: &OwnedFd) -> bool {
    let mut asked = [culvert_sys::raw::general::pollfd {
        fd: bell.raw(),
        events: 1,
        revents: 0,
    }];
    let _ = culvert_sys::process::poll(&mut asked, 50);
    fs::read(bell, &mut [0]) == Ok(1)
}

/// Answers with the request's body, its bytes plus one.
fn answer(server: &Server, message: Message<'_>, forgotten: &AtomicU64) {
    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
    let opcode = u32::from_ne_bytes(message.header[4..8].try_into().unwrap());
    assert_eq!(message.header[24..28], 1000u32.to_ne_bytes());
    let mut body = std::vec![0; message.body.len()];
    message.body.read(0, &mut body);
    let interrupt = message.interrupted.is_some();
    message.taken();
    if opcode == FORGET {
        forgotten.fetch_add(1, Relaxed);
        return;
    }
    if interrupt {
        return;
    }
    body.iter_mut()
        .for_each(|byte| *byte = byte.wrapping_add(1));
    if let Ok(reply) = server.reply(number) {
        assert!(server.reply(number).is_err(), "twice");
        reply.payload(body.len()).write(0, &body);
        let _ = reply.finish(0, body.len());
        assert!(server.reply(number).is_err(), "twice");
    }
}

fn serve(server: &Server, bell: &OwnedFd, over: &AtomicBool, forgotten: &AtomicU64) {
    while !over.load(Relaxed) {
        if heard(bell)
            && let Ok(Some(message)) = server.take()
        {
            answer(server, message, forgotten);
        }
    }
}

/// A number that looks random.
fn mixed(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *seed >> 33
}

fn ask(client: &Client, seed: &mut u64) -> Result<(), Errno> {
    let length = mixed(seed) as usize % 3000;
    let first = mixed(seed) as u8;
    let bytes = |by: u8| -> Vec<u8> {
        (0..length)
            .map(|at| first.wrapping_add(at as u8).wrapping_add(by))
            .collect()
    };
    let mut seen = Vec::new();
    client.call(
        caller(),
        ECHO,
        7,
        length,
        &mut |payload| {
            assert_eq!(payload.write(0, &bytes(0)), length);
            Ok(())
        },
        &mut |payload| {
            seen.resize(payload.len(), 0);
            payload.read(0, &mut seen);
            Ok(())
        },
    )?;
    assert!(seen == bytes(1), "another request's reply");
    Ok(())
}

fn free_slots(area: &Area) -> usize {
    let free = |index: &usize| area.slot(*index).owner.load(SeqCst) == 0;
    (0..SLOTS).filter(free).count()
}

#[test]
fn every_request_has_its_own_reply() {
    let place = Place::new("replies");
    let ((server, bell), over) = (place.server(), AtomicBool::new(false));
    let (forgotten, client) = (AtomicU64::new(0), place.client());
    let count = 400;
    thread::scope(|scope| {
        let servers: [_; 3] =
            core::array::from_fn(|_| scope.spawn(|| serve(&server, &bell, &over, &forgotten)));
        let clients: [_; 5] = core::array::from_fn(|number| {
            let client = &client;
            scope.spawn(move || {
                let mut seed = number as u64;
                for _ in 0..count {
                    ask(client, &mut seed).unwrap();
                    for opcode in [FORGET, RELEASE] {
                        while client.send(caller(), opcode, 3, &[0; 8]) == Err(Errno::EAGAIN) {
                            thread::yield_now();
                        }
                    }
                }
            })
        });
        for client in clients {
            client.join().unwrap();
        }
        while forgotten.load(Relaxed) != 5 * count || free_slots(server.area()) != SLOTS {
            thread::yield_now();
        }
        over.store(true, Relaxed);
        for server in servers {
            server.join().unwrap();
        }
    });
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn more_requests_than_slots_wait_for_one() {
    let place = Place::new("full");
    let ((server, bell), client) = (place.server(), place.client());
    let (over, forgotten) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let asking = (0..SLOTS + 40).map(|number| {
            let client = &client;
            scope.spawn(move || ask(client, &mut (number as u64)).unwrap())
        });
        let asking: Vec<_> = asking.collect();
        while free_slots(server.area()) != 0 {
            thread::yield_now();
        }
        assert_eq!(
            client.send(caller(), FORGET, 1, &[0; 8]),
            Err(Errno::EAGAIN)
        );
        let serving = scope.spawn(|| serve(&server, &bell, &over, &forgotten));
        for client in asking {
            client.join().unwrap();
        }
        over.store(true, Relaxed);
        serving.join().unwrap();
        assert_eq!(free_slots(server.area()), SLOTS);
    });
}

#[test]
fn nothing_is_forgotten_before_what_nobody_waits_for_was_answered() {
    let place = Place::new("order");
    let ((server, bell), client) = (place.server(), place.client());
    client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    while !heard(&bell) {}
    let message = server.take().unwrap().unwrap();
    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
    let sent = AtomicBool::new(false);
    // Whoever forgets it.
    let other = place.client();
    thread::scope(|scope| {
        let forgetting = scope.spawn(|| {
            other.send(caller(), FORGET, 3, &[0; 8]).unwrap();
            sent.store(true, Relaxed);
        });
        assert!(!heard(&bell) && !sent.load(Relaxed));
        message.taken();
        server.reply(number).unwrap().finish(0, 0).unwrap();
        forgetting.join().unwrap();
    });
    let forget = server.take().unwrap().unwrap();
    assert_eq!(forget.header[4..8], FORGET.to_ne_bytes());
    forget.taken();
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn another_node_is_forgotten_meanwhile_and_who_needs_the_file_closed_waits() {
    let place = Place::new("closed");
    let ((server, _bell), client) = (place.server(), place.client());
    client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    client.send(caller(), FORGET, 4, &[0; 8]).unwrap();
    client.await_closed(4);
    let release = server.take().unwrap().unwrap();
    let number = u64::from_ne_bytes(release.header[8..16].try_into().unwrap());
    release.taken();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            client.await_closed(3);
            assert!(over.load(SeqCst));
        });
        thread::yield_now();
        over.store(true, SeqCst);
        server.reply(number).unwrap().finish(0, 0).unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn a_file_is_closed_before_what_waits_besides() {
    let place = Place::new("first");
    let ((server, bell), client) = (place.server(), place.client());
    let forgotten = AtomicU64::new(0);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &mut 3).unwrap());
        while !heard(&bell) {}
        client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
        for opcode in [RELEASE, ECHO] {
            let message = server.take().unwrap().unwrap();
            assert_eq!(message.header[4..8], opcode.to_ne_bytes());
            answer(&server, message, &forgotten);
        }
        asking.join().unwrap();
    });
}

#[test]
fn who_looks_at_the_slots_is_not_rung_for_what_nobody_waits_for() {
    let place = Place::new("looks");
    let ((server, bell), client) = (place.server(), place.client());
    let forgotten = AtomicU64::new(0);
    for (says, rings) in [(2, false), (1, true), (0, true)] {
        match says {
            2 => server.attends_without_rings(),
            says => server.attends(says == 1),
        }
        client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
        assert_eq!(heard(&bell), rings);
        // Who says that he looks no longer looks once more.
        server.attends(false);
        assert!(server.is_asked());
        answer(&server, server.take().unwrap().unwrap(), &forgotten);
    }
    assert_eq!(free_slots(server.area()), SLOTS);
}

/// The server has answered what was begun, by the bytes of `body` plus one.
fn begun(server: &Server, client: &Client, body: &[u8]) -> Begun {
    let begun = Channel::begin(client, caller(), ECHO, 7, body).unwrap();
    answer(server, server.take().unwrap().unwrap(), &AtomicU64::new(0));
    begun
}

fn ended(client: &Client, begun: Begun, keeps: bool) -> Result<Vec<u8>, Errno> {
    let mut seen = Vec::new();
    Channel::end(client, begun, keeps, &mut |reply| {
        seen.resize(reply.len(), 0);
        reply.read(0, &mut seen);
        Ok(())
    })?;
    Ok(seen)
}

#[test]
fn a_reply_waits_until_it_is_wanted_and_is_nobodys_later() {
    let place = Place::new("begun");
    let ((server, _bell), client) = (place.server(), place.client());
    let one = begun(&server, &client, &[1, 2]);
    assert!(!server.is_crowded() && free_slots(server.area()) == SLOTS - 1);
    for keeps in [true, true, false] {
        assert_eq!(ended(&client, one, keeps), Ok(std::vec![2, 3]));
    }
    assert_eq!(ended(&client, one, false), Err(Errno::ENOENT));
    // Another request of the same process in the same slot is not it.
    let other = begun(&server, &client, &[5]);
    assert_eq!((one.index, one.own), (other.index, other.own));
    assert_eq!(ended(&client, one, false), Err(Errno::ENOENT));
    client.abandon(one);
    assert_eq!(ended(&client, other, true), Ok(std::vec![6]));
    client.abandon(other);
    assert_eq!(free_slots(server.area()), SLOTS);
    // One that the server has not taken is taken back; of a child it is not.
    let child = Begun {
        own: one.own ^ 1 << 30,
        ..Channel::begin(&client, caller(), ECHO, 7, &[]).unwrap()
    };
    client.abandon(child);
    assert_eq!(free_slots(server.area()), SLOTS - 1);
    client.abandon(Begun {
        own: one.own,
        ..child
    });
    assert_eq!(free_slots(server.area()), SLOTS);
    assert!(server.take().unwrap().is_none());
}

#[test]
fn a_reply_that_nobody_waits_for_makes_room_for_a_request() {
    let place = Place::new("room");
    let ((server, _bell), client) = (place.server(), place.client());
    let spare = begun(&server, &client, &[1]);
    for _ in 1..SLOTS {
        client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    }
    // What was begun takes no other's place.
    let no_room = Channel::begin(&client, caller(), ECHO, 7, &[]);
    assert_eq!(no_room, Err(Errno::EAGAIN));
    client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    assert_eq!(ended(&client, spare, false), Err(Errno::ENOENT));
    let forgotten = AtomicU64::new(0);
    while let Some(message) = server.take().unwrap() {
        answer(&server, message, &forgotten);
    }
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn what_is_begun_leaves_room_and_is_taken_only_when_it_is_answered() {
    let place = Place::new("most");
    let ((server, _bell), client) = (place.server(), place.client());
    let begin = || Channel::begin(&client, caller(), ECHO, 7, &[1]);
    let all: Vec<Begun> = (0..crate::begun::MOST).map(|_| begin().unwrap()).collect();
    assert_eq!(begin(), Err(Errno::EAGAIN));
    // Who has seen a reply there that was taken since finds the next request.
    let own = Identity(all[0].own);
    let spare = own.spare();
    let claim = |begun: &Begun| client.claim_from(begun.index as usize, spare, own);
    assert!(all.iter().all(|begun| claim(begun).is_none()));
    // Whoever waits for a slot hears of the reply, from him who comes second.
    let header = server.area().header();
    header.waiting.store(1, SeqCst);
    while let Some(message) = server.take().unwrap() {
        answer(&server, message, &AtomicU64::new(0));
    }
    let told = all.len() as u32;
    assert_eq!(header.freed.load(SeqCst), told);
    assert_eq!(ended(&client, all[0], true), Ok(std::vec![2]));
    assert_eq!(header.freed.load(SeqCst), told + 1);
    header.waiting.store(0, SeqCst);
    drop(claim(&all[0]).unwrap());
    assert_eq!(ended(&client, all[0], false), Err(Errno::ENOENT));
    all.iter().for_each(|begun| client.abandon(*begun));
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn what_a_killed_process_has_begun_is_freed() {
    let place = Place::new("killed");
    let ((server, bell), client) = (place.server(), place.client());
    let one = begun(&server, &client, &[1]);
    // It began before this process did, so it is gone.
    let dead = Identity(one.own - (1 << 22));
    let owner = &server.area().slot(one.index as usize).owner;
    owner.store(dead.spare().0, SeqCst);
    assert!(client.has_left(dead.0));
    server.area().died(dead.0, &bell);
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn the_end_of_the_session_is_told_to_all() {
    let place = Place::new("end");
    let ((server, bell), client) = (place.server(), place.client());
    let asked = || ask(&client, &mut 1);
    thread::scope(|scope| {
        let taken = scope.spawn(asked);
        while !heard(&bell) {}
        let message = server.take().unwrap().unwrap();
        let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
        let posted = scope.spawn(asked);
        while free_slots(server.area()) != SLOTS - 2 {
            thread::yield_now();
        }
        server.area().end(&bell);
        assert_eq!(taken.join().unwrap(), Err(Errno::ECONNABORTED));
        assert_eq!(posted.join().unwrap(), Err(Errno::ENOTCONN));
        assert!(server.reply(number).unwrap().finish(0, 0).is_err());
    });
    assert!(heard(&bell) && heard(&bell));
    assert!(matches!(server.take(), Err(Errno::ENODEV)));
    assert_eq!(asked(), Err(Errno::ENOTCONN));
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn a_dead_client_is_a_byte_of_the_bell_for_each_request_in_hand() {
    let place = Place::new("bytes");
    let ((server, bell), client) = (place.server(), place.client());
    for _ in 0..3 {
        client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    }
    while heard(&bell) {}
    for _ in 0..3 {
        server.take().unwrap().unwrap().taken();
    }
    let gone = Identity::own(server.area().header().namespace.load(SeqCst)).0 + (1 << 22);
    for index in 0..SLOTS {
        let owner = &server.area().slot(index).owner;
        if Identity(owner.load(SeqCst)).is_orphan() {
            owner.store(gone, SeqCst);
        }
    }
    server.area().died(gone, &bell);
    assert!((0..3).all(|_| heard(&bell)) && !heard(&bell));
}

#[test]
fn a_file_is_closed_whatever_the_server_says() {
    let place = Place::new("closed");
    let ((server, bell), client) = (place.server(), place.client());
    thread::scope(|scope| {
        let nothing =
            |opcode| client.call(caller(), opcode, 3, 0, &mut |_| Ok(()), &mut |_| Ok(()));
        for (opcode, result) in [(RELEASE, Ok(())), (ECHO, Err(Errno::EINTR))] {
            let asked = scope.spawn(move || nothing(opcode));
            while !heard(&bell) {}
            let message = server.take().unwrap().unwrap();
            let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
            message.taken();
            let reply = server.reply(number).unwrap();
            reply.finish(-Errno::EINTR.raw(), 0).unwrap();
            assert_eq!(asked.join().unwrap(), result);
        }
    });
}

#[test]
fn a_payload_without_memory_is_an_error() {
    let place = Place::new("memory");
    let ((server, _bell), client) = (place.server(), place.client());
    let area = std::fs::File::options()
        .write(true)
        .open(place.0.join("area"));
    let area = area.unwrap();
    let size = area.metadata().unwrap().len();
    area.set_len(crate::area::PAYLOADS as u64).unwrap();
    let send = || client.send(caller(), FORGET, 1, &[0; 8]);
    assert_eq!(send(), Err(Errno::ENOSPC));
    assert_eq!(ask(&client, &mut 1), Err(Errno::ENOSPC));
    assert_eq!(free_slots(server.area()), SLOTS);
    area.set_len(size).unwrap();
    assert_eq!(send(), Ok(()));
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_signal_takes_back_what_was_not_taken_and_interrupts_what_was() {
    let place = Place::new("interrupt");
    let (server, bell) = place.server();
    let client = Client::open(&place.path(), Some(|| INTERRUPTED.load(Relaxed))).unwrap();
    INTERRUPTED.store(true, Relaxed);
    assert_eq!(ask(&client, &mut 1), Err(Errno::EINTR));
    assert!(server.take().unwrap().is_none());
    INTERRUPTED.store(false, Relaxed);
    while heard(&bell) {}
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&client, &mut 1));
        while !heard(&bell) {}
        let message = server.take().unwrap().unwrap();
        let number = message.header[8..16].to_vec();
        INTERRUPTED.store(true, Relaxed);
        let interrupt = loop {
            if heard(&bell)
                && let Some(message) = server.take().unwrap()
            {
                break message;
            }
        };
        assert_eq!(interrupt.header[4..8], 36u32.to_ne_bytes());
        assert_eq!(interrupt.interrupted.unwrap()[..], number);
        assert_eq!(interrupt.length(), 48);
        let of = u64::from_ne_bytes(interrupt.header[8..16].try_into().unwrap());
        assert!(Server::is_interrupt(of) && !Server::is_interrupt(of - 1));
        interrupt.taken();
        // It did not know the request yet.
        assert!(server.answered_interrupt(of, -Errno::EAGAIN.raw()));
        assert!(server.take().unwrap().unwrap().interrupted.is_some());
        message.taken();
        let reply = server.reply(of - 1).unwrap();
        reply.finish(-Errno::EINTR.raw(), 0).unwrap();
        assert_eq!(asked.join().unwrap(), Err(Errno::EINTR));
        // Too late: the slot's next request is another.
        assert!(!server.answered_interrupt(of, -Errno::EAGAIN.raw()));
    });
    INTERRUPTED.store(false, Relaxed);
}

#[test]
fn a_request_of_no_program_in_a_forked_child_has_a_slot_of_its_own() {
    let place = Place::new("forked");
    let ((server, _bell), client) = (place.server(), place.client());
    client.forked();
    let system = Caller { pid: 0, ..caller() };
    for opcode in [RELEASE, RELEASE] {
        client.send(system, opcode, 3, &[0; 24]).unwrap();
    }
    assert_eq!(free_slots(server.area()), SLOTS - 2);
    let first = server.take().unwrap().unwrap();
    let second = server.take().unwrap().unwrap();
    assert_ne!(first.header[8..16], second.header[8..16]);
}

#[test]
fn who_cannot_see_the_server_does_not_end_it() {
    let place = Place::new("elsewhere");
    let ((server, bell), client) = (place.server(), place.client());
    let header = server.area().header();
    // A process that is not there, of the area's PID namespace.
    let gone = Identity(Identity::own(header.namespace.load(SeqCst)).0 + (1 << 22));
    let held = server.area().slot(0);
    held.owner.store(gone.0, SeqCst);
    let elsewhere = Identity::own(header.namespace.load(SeqCst) + 1);
    server.area().slot(1).owner.store(elsewhere.0, SeqCst);
    server.area().died(gone.0, &bell);
    server.area().died(elsewhere.0, &bell);
    assert!(!heard(&bell));
    assert_eq!(held.owner.load(SeqCst), 0);
    assert_eq!(server.area().slot(1).owner.load(SeqCst), elsewhere.0);
    header.server.store(gone.0, SeqCst);
    client.own.store(elsewhere.0, SeqCst);
    assert!(!client.is_over() && server.area().session() != Session::Ended);
    client
        .own
        .store(Identity::own(header.namespace.load(SeqCst)).0, SeqCst);
    assert!(client.is_over() && server.area().session() == Session::Ended);
}

const AS_CLIENT: &str = "CULVERT_SLOTS_CLIENT";

/// A process that asks until it is killed; only where another test has started it.
#[test]
fn client_process() {
    let Some(place) = env::var_os(AS_CLIENT) else {
        return;
    };
    let place = CString::new(place.into_encoded_bytes()).unwrap();
    let client = Client::open(&place, None).unwrap();
    let seed = u64::from(process::id());
    for number in 0..3 {
        let client = Client::open(&place, None).unwrap();
        thread::spawn(move || {
            let mut seed = seed + number;
            loop {
                let _ = ask(&client, &mut seed);
            }
        });
    }
    loop {
        let _ = client.send(caller(), FORGET, 1, &[0; 8]);
    }
}

#[test]
fn clients_that_are_killed_or_stopped_hold_nobody_up() {
    let place = Place::new("killed");
    let ((server, bell), over) = (place.server(), AtomicBool::new(false));
    let (forgotten, client) = (AtomicU64::new(0), place.client());
    let own = env::current_exe().unwrap();
    let start = || {
        process::Command::new(&own)
            .args(["--exact", "tests::client_process"])
            .env(AS_CLIENT, &place.0)
            .stdout(process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let deaths = env::var("CULVERT_DEATHS").map_or(60, |deaths| deaths.parse().unwrap());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| serve(&server, &bell, &over, &forgotten));
        }
        let (mut seed, mut longest) = (1, Duration::ZERO);
        for _ in 0..deaths {
            let mut children = [start(), start()];
            let until = Instant::now() + Duration::from_micros(3000 + mixed(&mut seed) % 9000);
            while Instant::now() < until {
                let began = Instant::now();
                ask(&client, &mut seed).unwrap();
                longest = longest.max(began.elapsed());
            }
            // One is stopped first, for a while.
            let stopped = children[0].id() as i32;
            culvert_sys::process::kill(stopped, 19).unwrap();
            for _ in 0..5 {
                ask(&client, &mut seed).unwrap();
            }
            for child in &mut children {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            server.area().free_of_the_dead(false, Identity::is_gone);
        }
        let until = Instant::now() + Duration::from_secs(20);
        while free_slots(server.area()) != SLOTS && Instant::now() < until {
            let _ = fs::write(&bell, &[0]);
            thread::yield_now();
        }
        over.store(true, Relaxed);
        assert_eq!(free_slots(server.area()), SLOTS, "lost");
        assert!(longest < Duration::from_secs(5), "{longest:?}");
    });
}

#[test]
fn whoever_scribbles_over_slots_causes_errors_and_no_endless_wait() {
    let place = Place::new("hostile");
    let ((server, bell), over) = (place.server(), AtomicBool::new(false));
    let client = place.client();
    let hostile = Area::open(&place.opened()).unwrap();
    let answered = AtomicU64::new(0);
    thread::scope(|scope| {
        let serve = || {
            while !over.load(Relaxed) {
                if !heard(&bell) {
                    continue;
                }
                if let Ok(Some(message)) = server.take() {
                    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
                    let interrupt = message.interrupted.is_some();
                    message.taken();
                    if !interrupt && let Ok(reply) = server.reply(number) {
                        let _ = reply.finish(0, 5);
                    }
                }
            }
        };
        scope.spawn(serve);
        scope.spawn(serve);
        let asking: [_; 3] = core::array::from_fn(|_| {
            scope.spawn(|| {
                for _ in 0..200 {
                    let asked = client.call(caller(), ECHO, 7, 9, &mut |_| Ok(()), &mut |_| Ok(()));
                    answered.fetch_add(u64::from(asked.is_ok()), Relaxed);
                }
            })
        });
        scope.spawn(|| {
            let mut seed = 5;
            while !over.load(Relaxed) {
                let index = mixed(&mut seed) as usize % 8;
                let slot = hostile.slot(index);
                match mixed(&mut seed) % 8 {
                    0 => slot.word.store(mixed(&mut seed) as u32, SeqCst),
                    1 => slot.length.store(u32::MAX, SeqCst),
                    2 => slot.error.store(mixed(&mut seed) as i32, SeqCst),
                    3 => slot.opcode.store(mixed(&mut seed) as u32 % 50, SeqCst),
                    4 => slot
                        .word
                        .store(Word(slot.word.load(SeqCst)).to(State::Taken).0, SeqCst),
                    5 => slot.owner.store(mixed(&mut seed) % 2, SeqCst),
                    6 => drop(fs::read(bell.as_fd(), &mut [0])),
                    _ => hostile.header().posted[0].store(mixed(&mut seed), SeqCst),
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        for client in asking {
            client.join().unwrap();
        }
        over.store(true, Relaxed);
    });
    assert!(answered.load(Relaxed) > 0);
}

/// What an heir gets: answers by opcode and node, and files by node and handle.
#[derive(Default)]
struct Got {
    answers: std::sync::Mutex<Vec<(u32, u64)>>,
    files: std::sync::Mutex<Vec<(u64, u64)>>,
}

fn open_file(node: u64, handle: u64) -> OpenFile {
    OpenFile {
        node,
        handle,
        flags: 0,
        is_directory: false,
    }
}

impl Heir for Got {
    fn opened(&self, opcode: u32, node: u64, answer: &Payload<'_>) -> Option<OpenFile> {
        assert_eq!(answer.len(), 16);
        self.answers.lock().unwrap().push((opcode, node));
        Some(open_file(node, node * 10))
    }

    fn release(&self, file: &OpenFile) {
        self.files.lock().unwrap().push((file.node, file.handle));
    }
}

#[test]
fn what_a_dead_process_leaves_is_taken_back_carried_out_or_inherited() {
    const OPEN: u32 = 14;
    let place = Place::new("estate");
    let ((server, bell), client) = (place.server(), place.client());
    let area = server.area();
    let gone = Identity::own(area.header().namespace.load(SeqCst)).0 + (1 << 22);
    let put = |index: usize, opcode: u32, node: u64, state: State| {
        let slot = area.slot(index);
        slot.opcode.store(opcode, SeqCst);
        slot.node.store(node, SeqCst);
        slot.length.store(16, SeqCst);
        area.secure(index, 16).unwrap();
        area.payload(index, 8).write(0, &(node * 10).to_ne_bytes());
        slot.owner.store(gone, SeqCst);
        slot.word.store(Word::new(5, state).0, SeqCst);
    };
    // The last one was killed between its note and the end of its request.
    for node in [1, 2, 8] {
        let file = open_file(node, node * 10);
        crate::entries::note_open(area.opens(), Identity(gone), &file);
    }
    // The server has this in hand.
    put(4, OPEN, 7, State::Posted);
    let message = server.take().unwrap().unwrap();
    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
    message.taken();
    put(0, RELEASE, 1, State::Posted);
    put(1, ECHO, 3, State::Posted);
    put(2, OPEN, 6, State::Done);
    put(3, ECHO, 3, State::Free);
    put(5, OPEN, 8, State::Done);
    assert!(client.has_left(gone));
    let got = Got::default();
    thread::scope(|scope| {
        let buried = scope.spawn(|| client.bury(gone, &got));
        // The server looks at all slots, and would have this one in hand.
        while Word(area.slot(1).word.load(SeqCst)).state() == Some(State::Posted) {
            thread::yield_now();
        }
        let mut seen = Vec::new();
        while seen.len() < 2 {
            if let Some(message) = server.take().unwrap() {
                let opcode = u32::from_ne_bytes(message.header[4..8].try_into().unwrap());
                seen.push(opcode);
                let asked = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
                message.taken();
                if opcode == RELEASE {
                    server.reply(asked).unwrap().finish(0, 0).unwrap();
                }
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [RELEASE, 36]);
        server.reply(number).unwrap().finish(0, 16).unwrap();
        buried.join().unwrap();
    });
    let answers = [(OPEN, 6), (OPEN, 7), (OPEN, 8)];
    assert_eq!(*got.answers.lock().unwrap(), answers);
    let mut files = got.files.into_inner().unwrap();
    files.sort_unstable();
    // Each once.
    assert_eq!(files, [(2, 20), (6, 60), (7, 70), (8, 80)]);
    assert!(!client.has_left(gone));
    assert_eq!(free_slots(area), SLOTS);
    // Who claims one next has not asked for what is there.
    let is_free = |index| Word(area.slot(index).word.load(SeqCst)).state() == Some(State::Free);
    assert!((0..SLOTS).all(is_free));
    drop(bell);
}
