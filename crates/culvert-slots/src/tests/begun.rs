//! Requests whose replies are wanted later.

use super::*;

/// The server has answered what was begun, by the bytes of `body` plus one.
fn begun(server: &Server, client: &Client, body: &[u8]) -> Begun {
    let begun = Channel::begin(client, caller(), ECHO, 7, body).unwrap();
    answer(server, server.take().unwrap().unwrap(), &AtomicU64::new(0));
    begun
}

pub(super) fn ended(client: &Client, begun: Begun, keeps: bool) -> Result<Vec<u8>, Errno> {
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
    let all: Vec<Begun> = (0..crate::client::begun::MOST)
        .map(|_| begin().unwrap())
        .collect();
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
