use super::{
    kernel::Kernel,
    message::{MAPS, Received, Reply, Request, send},
    *,
};
use crate::{module::Owner, object::Object, parts::OBJECT};
use std::{
    fs::File,
    os::fd::AsFd,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

/// What the kernel says, and under which names it was told to load.
#[derive(Clone)]
struct Said {
    owner: Result<u32, String>,
    mounts: [&'static str; 2],
    used: (usize, u64),
    loaded: std::sync::Arc<Mutex<Vec<String>>>,
}

const HARMLESS: &str = "30 21 0:45 / /mnt rw,nosuid,nodev - fuse.culvert s rw\n";

fn own() -> u32 {
    rustix::process::getuid().as_raw()
}

impl Default for Said {
    fn default() -> Self {
        Self {
            owner: Ok(own()),
            mounts: [HARMLESS, ""],
            used: (0, 0),
            loaded: Default::default(),
        }
    }
}

impl Kernel for Said {
    fn owner(&self, _: BorrowedFd<'_>) -> Result<Owner, String> {
        self.owner.clone().map(|uid| Owner::of(uid, (0, 45)))
    }

    fn mounts(&self, _: Peer) -> Result<[String; 2], String> {
        Ok(self.mounts.map(str::to_owned))
    }

    fn used(&self, _: &str) -> Result<(usize, u64), String> {
        Ok(self.used)
    }

    fn load(
        &self,
        object: &Object<'_>,
        entries: &[u32],
        (_, name): (BorrowedFd<'_>, &str),
    ) -> Result<Loaded, String> {
        self.loaded
            .lock()
            .expect("a list")
            .push(format!("{name} {entries:?}"));
        let maps = object.maps.iter().map(|_| null()).collect();
        Ok(Loaded::new(Attached::from(null()), maps))
    }
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("it is there").into()
}

fn pair() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair")
}

fn service(said: Said) -> Service {
    let list = Path::new("/nowhere/culvert");
    Service::with(Allowed::new(list), Limits::default(), Box::new(said))
}

/// What the service says to what `ask` sends.
fn answer(said: &Said, ask: impl FnOnce(&OwnedFd)) -> Reply {
    let (ours, theirs) = pair();
    ask(&ours);
    let who = peer(&theirs).expect("who is there");
    service(said.clone()).answer(&theirs, who);
    Reply::receive(&ours).expect("an answer").0
}

fn refused(said: &Said, ask: impl FnOnce(&OwnedFd), why: &str) {
    match answer(said, ask) {
        Reply::Refused(text) => assert!(text.contains(why), "{text}"),
        Reply::Loaded => panic!("not refused: {why}"),
    }
    assert!(said.loaded.lock().expect("a list").is_empty());
}

const ENTRIES: [u32; 5] = [1, 1024, 1024, 1, 4096];

fn request(entries: &[u32], object: &[u8]) -> Vec<u8> {
    Request { object, entries }.bytes().expect("it is small")
}

fn good(socket: &OwnedFd) {
    send(socket, &request(&ENTRIES, OBJECT), &[null().as_fd()]).expect("sent");
}

#[test]
fn a_users_mount_gets_a_ready_part() {
    let said = Said::default();
    let (ours, theirs) = pair();
    let service = service(said.clone());
    let asked = std::thread::spawn(move || {
        let fuse = null();
        ask_at(&ours, OBJECT, &ENTRIES, fuse.as_fd(), ENTRIES.len())
    });
    let who = peer(&theirs).expect("who is there");
    let line = service.answer(&theirs, who);
    let loaded = asked
        .join()
        .expect("no panic")
        .expect("an answer")
        .expect("loaded");
    assert_eq!(loaded.maps.len(), 5);
    assert!(!line.contains("refused"), "{line}");
    let told = said.loaded.lock().expect("a list").clone();
    assert_eq!(told, [format!("cv_{} {ENTRIES:?}", own())]);
}

#[test]
fn what_is_no_request_is_refused() {
    let said = Said::default();
    let whole = request(&ENTRIES, OBJECT);
    let mut many = whole.clone();
    many[4] = MAPS as u8 + 1;
    for wrong in [&whole[..3], &whole[..8], &whole[..27], &many, b"other"] {
        let why = "none of this version";
        refused(
            &said,
            |socket| send(socket, wrong, &[null().as_fd()]).expect("sent"),
            why,
        );
    }
    // An object cut short is another one.
    let cut = request(&ENTRIES, &OBJECT[..OBJECT.len() - 1]);
    refused(
        &said,
        |socket| send(socket, &cut, &[null().as_fd()]).expect("sent"),
        "not on the list",
    );
    let more = request(&[1; 6], OBJECT);
    refused(
        &said,
        |socket| send(socket, &more, &[null().as_fd()]).expect("sent"),
        "fewer maps",
    );
    let mut long = request(&[0; MAPS], &[]);
    long.resize(super::message::LARGEST + 1000, 7);
    refused(
        &said,
        |socket| send(socket, &long, &[null().as_fd()]).expect("sent"),
        "this version",
    );
    assert!(
        Request {
            object: &long,
            entries: &[]
        }
        .bytes()
        .is_err()
    );
}

#[test]
fn a_request_brings_one_descriptor() {
    let (said, whole) = (Said::default(), request(&ENTRIES, OBJECT));
    refused(
        &said,
        |socket| send(socket, &whole, &[]).expect("sent"),
        "0 descriptors",
    );
    let both = [null(), null()];
    let fds = both.each_ref().map(AsFd::as_fd);
    refused(
        &said,
        |socket| send(socket, &whole, &fds).expect("sent"),
        "2 descriptors",
    );
}

#[test]
fn who_says_nothing_is_not_waited_for_long() {
    const PATIENCE: Duration = Duration::from_millis(300);
    let mut service = service(Said::default());
    assert_eq!(service.patience, Duration::from_secs(5));
    service.patience = PATIENCE;
    let service = Arc::new(service);
    let begin = |service: &Arc<Service>| {
        let (ours, theirs) = pair();
        service.begin(theirs, |_| ());
        ours
    };
    let began = Instant::now();
    let silent: Vec<_> = (0..4).map(|_| begin(&service)).collect();
    // So many a user has at once.
    let refused = begin(&service);
    let (reply, _) = Reply::receive(&refused).expect("a reply");
    assert!(
        matches!(&reply, Reply::Refused(why) if why.contains("too many")),
        "{reply:?}"
    );
    // They are gone, without an answer, when it is over.
    for silent in silent {
        assert!(Reply::receive(&silent).is_err());
    }
    let took = began.elapsed();
    assert!(took >= PATIENCE, "{took:?}");
    let loaded = (0..100).any(|_| {
        let next = begin(&service);
        // While the four are there it is closed.
        let _ = send(&next, &request(&ENTRIES, OBJECT), &[null().as_fd()]);
        let reply = Reply::receive(&next);
        std::thread::sleep(Duration::from_millis(10));
        matches!(reply, Ok((Reply::Loaded, _)))
    });
    assert!(loaded);
}

#[test]
fn who_goes_is_not_waited_for() {
    let (ours, theirs) = pair();
    let who = peer(&theirs).expect("who is there");
    drop(ours);
    let line = service(Said::default()).answer(&theirs, who);
    assert!(
        line.contains("no request") || line.contains("refused"),
        "{line}"
    );
}

#[test]
fn the_connection_must_be_the_askers() {
    let other = Said {
        owner: Ok(own() + 1),
        ..Said::default()
    };
    refused(&other, good, "another user's");
    let none = Said {
        owner: Err("no connection".into()),
        ..Said::default()
    };
    refused(&none, good, "no connection");
}

#[test]
fn the_mount_must_be_one_that_users_may_make() {
    let suid = "30 21 0:45 / /mnt rw,nodev - fuse.culvert s rw\n";
    for mounts in [[suid, ""], [HARMLESS, suid], ["", HARMLESS]] {
        let said = Said {
            mounts,
            ..Said::default()
        };
        refused(
            &said,
            good,
            if mounts[0].is_empty() {
                "see the mount"
            } else {
                "nosuid"
            },
        );
    }
    let said = Said {
        mounts: [HARMLESS; 2],
        ..Said::default()
    };
    assert_eq!(answer(&said, good), Reply::Loaded);
}

#[test]
fn a_user_has_so_much_and_no_more() {
    let limits = Limits::default();
    let many = Said {
        used: (limits.programs, 0),
        ..Said::default()
    };
    refused(&many, good, "programs already");
    let much = Said {
        used: (1, limits.memory - 4096),
        ..Said::default()
    };
    refused(&much, good, "KiB of tables");
    let said = Said::default();
    for entries in [[1, u32::MAX, 1, 1, 4096], [u32::MAX; 5]] {
        let huge = request(&entries, OBJECT);
        refused(
            &said,
            |socket| send(socket, &huge, &[null().as_fd()]).expect("sent"),
            "KiB of tables",
        );
    }
    let some = Said {
        used: (limits.programs - 1, limits.memory / 2),
        ..Said::default()
    };
    assert_eq!(answer(&some, good), Reply::Loaded);
}

#[test]
fn an_answer_with_too_few_descriptors_is_an_error() {
    let (ours, theirs) = pair();
    Reply::Loaded
        .send(&theirs, &[null().as_fd()])
        .expect("sent");
    let fuse = null();
    let done = ask_at(&ours, OBJECT, &ENTRIES, fuse.as_fd(), ENTRIES.len());
    assert!(done.is_err());
}

#[test]
fn whatever_comes_is_read_or_refused() {
    let whole = request(&[1, 2, 3], b"object");
    for end in 0..whole.len() {
        let read = Received::parse(&whole[..end]);
        assert_eq!(read.is_some(), end >= 8 + 12, "{end}");
    }
    let read = Received::parse(&whole).expect("a request");
    assert_eq!(
        (&read.entries[..], &read.object[..]),
        (&[1, 2, 3][..], &b"object"[..])
    );
}
