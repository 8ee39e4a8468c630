//! A server of one thread that is not rung for while it is awake.

use super::begun::ended;
use super::*;

#[test]
fn who_is_awake_looks_once_more_before_he_sleeps() {
    let place = Place::new("awake");
    let ((server, bell), client) = (place.server(), place.client());
    server.is_awake();
    assert!(server.seems_awake() && !server.is_asked());
    // A RELEASE that nobody waits for, and what was begun.
    client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    let begun = Channel::begin(&client, caller(), ECHO, 7, &[1]).unwrap();
    assert_eq!(fs::read(&bell, &mut [0]), Err(Errno::EAGAIN));
    assert!(!server.may_sleep() && !server.seems_awake());
    let forgotten = AtomicU64::new(0);
    for _ in 0..2 {
        answer(&server, server.take().unwrap().unwrap(), &forgotten);
    }
    assert_eq!(ended(&client, begun, false), Ok(std::vec![2]));
    assert!(server.may_sleep());
    client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
    assert!(heard(&bell));
    answer(&server, server.take().unwrap().unwrap(), &forgotten);
    assert_eq!((server.missed(), free_slots(server.area())), (0, SLOTS));
}

#[test]
fn who_is_not_seen_rings_and_says_so() {
    let place = Place::new("missed");
    let ((server, bell), client) = (place.server(), place.client());
    server.is_awake();
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &mut 5).unwrap());
        while !heard(&bell) {}
        assert_eq!((server.missed(), server.seems_awake()), (1, false));
        answer(&server, server.take().unwrap().unwrap(), &AtomicU64::new(0));
        asking.join().unwrap();
    });
}

/// The client only sends, so nobody rings later for what was not seen.
#[test]
fn every_request_is_seen_by_a_server_that_sleeps_and_wakes() {
    const ROUNDS: u64 = 1000;
    let place = Place::new("sleeps");
    let ((server, bell), client) = (place.server(), place.client());
    let (answered, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut seed = 1;
            for round in 1..=ROUNDS {
                client.send(caller(), RELEASE, 3, &[0; 24]).unwrap();
                while answered.load(SeqCst) < round && !over.load(SeqCst) {
                    thread::yield_now();
                }
                for _ in 0..mixed(&mut seed) % 300 {
                    core::hint::spin_loop();
                }
            }
        });
        let mut is_heard = true;
        while is_heard && answered.load(SeqCst) < ROUNDS && !asking.is_finished() {
            if !server.is_asked() && server.may_sleep() {
                // What is posted now is rung for soon.
                let soon = || (0..400).any(|_| heard(&bell));
                is_heard = heard(&bell) || !server.is_asked() || soon();
            }
            server.is_awake();
            while let Ok(Some(message)) = server.take() {
                answer(&server, message, &AtomicU64::new(0));
                answered.fetch_add(1, SeqCst);
            }
        }
        over.store(true, SeqCst);
        assert!(is_heard, "after {answered:?}");
    });
    assert_eq!(free_slots(server.area()), SLOTS);
}
