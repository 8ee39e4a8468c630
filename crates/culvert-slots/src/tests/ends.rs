//! Ends of sessions and of processes.

use super::*;

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
            .args(["--exact", "tests::ends::client_process"])
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

/// What an heir gets: answers by opcode and node, and files by node and handle.
#[derive(Default)]
struct Got {
    answers: std::sync::Mutex<Vec<(u32, u64)>>,
    files: std::sync::Mutex<Vec<(u64, u64)>>,
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
