//! Requests and their replies, and in which order.

use super::*;

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
fn what_a_request_says_besides_stands_behind_its_body_and_no_group_is_believed_that_is_not_the_servers()
 {
    let place = Place::new("extensions");
    let ((server, _bell), client) = (place.server(), place.client());
    let mut own = [0; 256];
    let count = culvert_sys::process::getgroups(&mut own).unwrap();
    let strange = (1..).find(|group| !own[..count].contains(group)).unwrap();
    let labels: Vec<u8> = [8u32, 0]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let groups = |group: u32| -> Vec<u8> {
        let words = [16, 32, 1, group];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    };
    let said = |group, labels| {
        let extension = Extension { group, labels };
        let caller = Caller {
            extension,
            ..caller()
        };
        client.send(caller, FORGET, 3, &[7; 8]).unwrap();
        let message = server.take().unwrap().unwrap();
        let said = message.extension().to_vec();
        let word = |at: usize| u32::from_ne_bytes(message.header[at..at + 4].try_into().unwrap());
        assert_eq!(word(0) as usize, IN_HEADER + 8 + said.len());
        assert_eq!(word(36) as usize, said.len() / 8);
        assert_eq!(
            (message.length(), message.body.len()),
            (word(0) as usize, 8)
        );
        message.taken();
        said
    };
    assert_eq!(said(None, false), []);
    assert_eq!(said(None, true), labels);
    for &group in own[..count].iter().filter(|&&group| group != 100) {
        assert_eq!(said(Some(group), false), groups(group));
        assert_eq!(
            said(Some(group), true),
            [labels.clone(), groups(group)].concat()
        );
    }
    // Another one, and the server's first, which the header says.
    for group in [strange, 100] {
        assert_eq!(said(Some(group), true), labels);
    }
    // The next request of the slot.
    assert_eq!(said(None, false), []);
}

/// What a program writes into a slot is no user of the request: another one gets no slot, and one
/// that has the area says what it likes.
#[test]
fn no_client_says_for_whom_a_request_is() {
    let place = Place::new("forged");
    let ((server, bell), client) = (place.server(), place.client());
    let root = Caller {
        uid: 0,
        gid: 0,
        ..caller()
    };
    thread::scope(|scope| {
        let asking =
            scope.spawn(|| client.request(root, ECHO, 3, 0, &mut |_| Ok(()), &mut |_| Ok(())));
        while !heard(&bell) {}
        let message = server.take().unwrap().unwrap();
        let word = |at: usize| u32::from_ne_bytes(message.header[at..at + 4].try_into().unwrap());
        assert_eq!((word(24), word(28)), (1000, 100));
        answer(&server, message, &AtomicU64::new(0));
        asking.join().unwrap().unwrap();
    });
    let other = Caller {
        uid: caller().uid + 1,
        ..caller()
    };
    let called = client.call(other, ECHO, 3, 0, &mut |_| Ok(()), &mut |_| Ok(()));
    assert_eq!(called, Err(Errno::EACCES));
}
