//! A process of the same user writes anything anywhere into the area, while clients ask, a server
//! answers and a guardian sees to the dead: errors, but nobody crashes and no wait is without end.

extern crate std;
use super::*;

/// How many areas are spoilt, and how often each is written to.
const ROUNDS: u64 = 30;
const WRITES: usize = 4000;

static ROUND: AtomicU64 = AtomicU64::new(0);

/// Gives everything back.
struct Nobody;

impl Heir for Nobody {
    fn opened(&self, _: u32, node: u64, answer: &Payload<'_>) -> Option<OpenFile> {
        let mut handle = [0; 8];
        answer.read(0, &mut handle);
        Some(open_file(node, u64::from_ne_bytes(handle)))
    }

    fn release(&self, _: &OpenFile) {}
}

/// Writes to the words of `area`, most of them where slots are.
fn scribble(area: &Area, seed: &mut u64) {
    let (start, length) = area.place();
    // SAFETY: the mapping of an area that lives longer; it is read and written by atomic words, and
    // by copies for which any bytes are right.
    let words = unsafe { core::slice::from_raw_parts(start as *const AtomicU64, length / 8) };
    let header = area.header();
    let ends = [
        header.session.as_ptr() as usize & !7,
        header.server.as_ptr() as usize,
    ];
    for _ in 0..WRITES {
        let at = match mixed(seed) % 8 {
            0..4 => mixed(seed) as usize % (3 * 512),
            4..6 => mixed(seed) as usize % (crate::area::PAYLOADS / 8),
            _ => {
                let slot = mixed(seed) as usize % 4;
                (crate::area::PAYLOADS + slot * LARGEST) / 8 + mixed(seed) as usize % 512
            }
        };
        // Each of these may be the end of all.
        if ends.contains(&(start + at * 8)) && !mixed(seed).is_multiple_of(32) {
            continue;
        }
        let value = match mixed(seed) % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => mixed(seed) % 64,
            3 => words[at].load(Relaxed) ^ 1 << (mixed(seed) % 64),
            4 => words[mixed(seed) as usize % (3 * 512)].load(Relaxed),
            _ => mixed(seed) << 33 | mixed(seed),
        };
        words[at].store(value, SeqCst);
        if mixed(seed).is_multiple_of(64) {
            thread::yield_now();
        }
    }
}

/// Answers anything to whatever is asked.
fn answer_something(server: &Server, message: Message<'_>) {
    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
    let mut body = [0; 64];
    message.body.read(0, &mut body);
    let interrupt = message.interrupted.is_some();
    assert!(message.length() <= IN_HEADER + LARGEST);
    message.taken();
    if !interrupt && let Ok(reply) = server.reply(number) {
        reply.payload(16).write(0, &body[..16]);
        let _ = reply.finish(0, 16);
        assert!(server.reply(number).is_err(), "twice");
    }
}

fn play(place: &Place, mut seed: u64) -> u64 {
    let (server, bell) = place.server();
    let (client, guardian) = (place.client(), place.client());
    let hostile = Area::open(&place.opened()).unwrap();
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let serving: [_; 2] = core::array::from_fn(|_| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    if heard(&bell)
                        && let Ok(Some(message)) = server.take()
                    {
                        answer_something(&server, message);
                    }
                }
            })
        });
        let burying = scope.spawn(|| {
            while !over.load(Relaxed) {
                guardian.area().free_orphans();
                let _ = guardian.has_orphans();
                let _ = guardian.area().counts();
                let owners = (0..SLOTS).map(|index| hostile.slot(index).owner.load(SeqCst));
                for owner in owners.chain(hostile.opens().iter().map(|is| is.owner.load(SeqCst))) {
                    if guardian.has_left(owner) {
                        guardian.bury(owner, &Nobody);
                    }
                }
                thread::yield_now();
            }
        });
        let asking: [_; 3] = core::array::from_fn(|_| {
            scope.spawn(|| {
                for number in 0..60 {
                    let done = client.call(
                        caller(),
                        ECHO,
                        7,
                        64,
                        &mut |payload| {
                            payload.write(0, &[7; 64]);
                            Ok(())
                        },
                        &mut |payload| {
                            payload.read(0, &mut [0; 64]);
                            Ok(())
                        },
                    );
                    asked.fetch_add(u64::from(done.is_ok()), Relaxed);
                    client.opened(&open_file(number, number));
                    let _ = client.send(caller(), RELEASE, number, &number.to_ne_bytes());
                    let _ = client.send(caller(), FORGET, number, &[0; 8]);
                }
            })
        });
        scribble(&hostile, &mut seed);
        for thread in asking {
            thread.join().unwrap();
        }
        over.store(true, Relaxed);
        // What the guardian waits for is over at last, too.
        server.area().end(&bell);
        burying.join().unwrap();
        for thread in serving {
            thread.join().unwrap();
        }
    });
    asked.into_inner()
}

#[test]
fn anything_may_be_written_into_the_area() {
    let rounds = env::var("CULVERT_SCRIBBLES").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    deaths::watch(&ROUND);
    let asked: u64 = (0..rounds)
        .map(|round| {
            ROUND.store(round, Relaxed);
            play(&Place::new("scribbled"), round)
        })
        .sum();
    ROUND.store(deaths::OVER, Relaxed);
    assert!(asked > 0);
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
