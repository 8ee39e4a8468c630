//! Messages that no client asks for, and requests that the server wants once more.

use super::*;

fn number(message: &Message<'_>) -> u64 {
    u64::from_ne_bytes(message.header[8..16].try_into().unwrap())
}

#[test]
fn a_message_of_the_servers_own_has_its_number_and_frees_its_slot() {
    let place = Place::new("told");
    let (server, _bell) = place.server();
    server.tell(77, 5, b"bytes").unwrap();
    let message = server.take().unwrap().unwrap();
    assert_eq!((number(&message), message.length()), (77, 40 + 5));
    assert_eq!(message.header[4..8], 41_u32.to_ne_bytes());
    assert_eq!(message.header[16..24], 5_u64.to_ne_bytes());
    let mut body = [0; 9];
    assert_eq!(message.body.read(0, &mut body), 5);
    assert_eq!(&body[..5], b"bytes");
    assert!(!message.has_reply());
    message.taken();
    assert_eq!(free_slots(server.area()), SLOTS);
    for told in 0..SLOTS as u64 {
        server.tell(told, 5, b"").unwrap();
    }
    assert_eq!(server.tell(77, 5, b""), Err(Errno::ENOMEM));
    let mut seen: Vec<_> = core::iter::from_fn(|| server.take().unwrap())
        .map(|message| {
            let number = number(&message);
            message.taken();
            number
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..SLOTS as u64));
    assert_eq!(free_slots(server.area()), SLOTS);
}

/// The server has the bytes before the thread that copies them says so.
#[test]
fn what_the_server_asks_for_again_while_it_is_handed_over_is_sent_once_more() {
    let place = Place::new("handed");
    let ((server, _bell), client) = (place.server(), place.client());
    client.send(caller(), RELEASE, 3, &[0; 8]).unwrap();
    let first = server.take().unwrap().unwrap();
    let before = number(&first);
    assert_eq!(server.resend(), 0);
    assert!(first.handed());
    assert_eq!(server.reply(before).err(), Some(Errno::ENOENT));
    let again = server.take().unwrap().unwrap();
    assert_eq!(number(&again), before | 1 << 63);
    // Nobody asks for it once more.
    assert!(!again.handed());
    let reply = server.reply(before | 1 << 63).unwrap();
    reply.finish(0, 0).unwrap();
    assert_eq!(free_slots(server.area()), SLOTS);
}

#[test]
fn what_is_sent_again_is_answered_by_its_new_number_alone_and_once() {
    let place = Place::new("again");
    let ((server, bell), client) = (place.server(), place.client());
    thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut seen = 0;
            let mut fill = |payload: &Payload<'_>| {
                payload.write(0, b"body");
                Ok(())
            };
            let mut take = |payload: &Payload<'_>| {
                seen = payload.len();
                Ok(())
            };
            let asked = client.call(caller(), ECHO, 3, 4, &mut fill, &mut take);
            asked.map(|()| seen)
        });
        while !heard(&bell) {}
        assert_eq!(server.resend(), 0);
        let first = server.take().unwrap().unwrap();
        let (before, length) = (number(&first), first.length());
        // Who copies it has not seen all of it.
        assert_eq!(server.resend(), 0);
        first.taken();
        assert_eq!(server.resend(), 1);
        // It is not in hand any more.
        assert_eq!(server.reply(before).err(), Some(Errno::ENOENT));
        let again = server.take().unwrap().unwrap();
        assert_eq!(number(&again), before | 1 << 63);
        assert_eq!(again.length(), length);
        assert_eq!(server.reply(before).err(), Some(Errno::ENOENT));
        again.taken();
        // As often as it is wanted.
        assert_eq!(server.resend(), 1);
        // It may be answered by who has the bytes, before the thread that copies them says so.
        let copied = server.take().unwrap().unwrap();
        let again = number(&copied);
        assert!(server.take().unwrap().is_none());
        server.reply(again).unwrap().finish(0, 2).unwrap();
        copied.taken();
        assert_eq!(server.reply(again).err(), Some(Errno::ENOENT));
        assert_eq!(asked.join().unwrap(), Ok(2));
        assert_eq!(server.resend(), 0);
    });
    // The next request of the slot is another.
    client.send(caller(), RELEASE, 3, &[0; 8]).unwrap();
    let next = server.take().unwrap().unwrap();
    assert_eq!(number(&next) >> 63, 0);
    server.reply(number(&next)).unwrap().finish(0, 0).unwrap();
    assert_eq!(free_slots(server.area()), SLOTS);
}
