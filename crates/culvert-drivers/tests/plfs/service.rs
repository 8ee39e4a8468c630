//! Appends by the synchronisation service, with runs, services and writers that come and go.

use crate::tools::{Scratch, create_file, open, open_file, open_for, read_all, write_at};
use culvert::{Errno, FileSystem, OpenFlags, Result, SetAttributes, Source, testing::caller};
use culvert_sync::lease::{self, Lease};
use culvert_sync::{Identity, Listener, Service, Settings, Stopper};
use culvert_sync_wire::memory::LENGTH;
use culvert_sync_wire::{ANSWER, Answer, Ask, FileId, Request};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

/// A service, stopped when dropped.
pub struct Running {
    stopper: Stopper,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    fn new(socket: &std::path::Path) -> Self {
        let listener = Listener::new(socket).unwrap();
        Self::serving(Service::new(listener, Settings::default()).unwrap())
    }

    fn serving(service: Service) -> Self {
        let stopper = service.stopper();
        let serve = move || service.run(|| true).unwrap();
        Self {
            stopper,
            thread: Some(thread::spawn(serve)),
        }
    }
}

/// One of all hosts that share the first back end, reached by TLS if it has an `identity`, and its
/// lease.
pub fn of_hosts(scratch: &Scratch, name: &str, identity: Option<Identity>) -> (Running, Lease) {
    let (backend, hosts) = (&scratch.backends[0], "127.0.0.1:0");
    let listener = TcpListener::bind(hosts).unwrap();
    let (secret, address) = (
        lease::secret(backend).unwrap(),
        listener.local_addr().unwrap(),
    );
    let key = identity.as_ref().map(Identity::key);
    let lease = Lease::wait(backend, address, key).unwrap();
    let socket = Listener::new(&scratch.root.join(name)).unwrap();
    let mut service = Service::new(socket, Settings::default()).unwrap();
    service
        .serve_hosts(listener, secret, identity, lease.epoch())
        .unwrap();
    (Running::serving(service), lease)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

pub fn socket(scratch: &Scratch) -> PathBuf {
    scratch.root.join("sync")
}

/// Runs of their own, each of one process: `with` that use the service, `without`.
fn runs(scratch: &Scratch, with: usize, without: usize) -> Vec<Box<dyn FileSystem>> {
    let option = format!("sync={}", socket(scratch).display());
    let each = (0..with + without).map(|at| match at < with {
        true => scratch.open(&[&option]),
        false => scratch.open(&[]),
    });
    each.collect()
}

/// Random appends, and with `all` writes and truncation, by the processes `runs` in turn: an append
/// is where it has to be, and at the end the content is right. `between` is called before each
/// step.
fn one_after_the_other(
    runs: &[Box<dyn FileSystem>],
    steps: usize,
    all: bool,
    mut between: impl FnMut(usize),
) {
    drop(create_file(&*runs[0], "f"));
    let files: Vec<_> = runs
        .iter()
        .map(|fs| open_for(&**fs, "f", OpenFlags::READ_WRITE).unwrap())
        .collect();
    let (mut model, mut state) = (Vec::new(), 7u64);
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for step in 0..steps {
        between(step);
        let file = &files[random(files.len() as u64) as usize];
        let (at, length) = (random(5000) as usize, 1 + random(300) as usize);
        match random(10) {
            0 if all => {
                let changes = SetAttributes {
                    size: Some(at as u64),
                    ..SetAttributes::default()
                };
                file.set_attributes(&caller(), &changes).unwrap();
                model.resize(at, 0);
            }
            1..5 if all => {
                write_at(&**file, at as u64, &vec![step as u8; length]);
                model.resize(model.len().max(at + length), 0);
                model[at..at + length].fill(step as u8);
            }
            _ => {
                let bytes = vec![step as u8; length];
                let done = file.append(&mut &bytes[..]).unwrap();
                assert_eq!(done, (model.len() as u64, length), "step {step}");
                model.extend(bytes);
            }
        }
    }
    drop(files);
    let file = open_file(&*runs[0], "f").unwrap();
    assert!(read_all(&*file).unwrap() == model);
}

#[test]
fn appends_of_several_runs_are_atomic() {
    let scratch = Scratch::new(2);
    one_after_the_other(&runs(&scratch, 0, 3), 600, true, |_| ());
}

#[test]
fn appends_by_the_service_are_behind_all_that_was_written() {
    let scratch = Scratch::new(2);
    let _service = Running::new(&socket(&scratch));
    one_after_the_other(&runs(&scratch, 3, 0), 600, true, |_| ());
}

/// Records of appends do not wait: who appends next looks for the end by them, another process of
/// the run among them.
#[test]
fn appends_with_lazy_records_are_behind_each_other() {
    for with in [false, true] {
        let scratch = Scratch::new(1);
        let _service = with.then(|| Running::new(&socket(&scratch)));
        let sync = match with {
            true => format!("sync={}", socket(&scratch).display()),
            false => String::from("sync=no"),
        };
        let mount = scratch.prepared(&["index=lazy", &sync]);
        let all = [open(&mount), open(&mount)];
        drop(create_file(&*all[0], "f"));
        let files = all
            .each_ref()
            .map(|fs| open_for(&**fs, "f", OpenFlags::WRITE).unwrap());
        for step in 0..20 {
            if with {
                // Each in a turn of its own.
                thread::sleep(std::time::Duration::from_millis(60));
            }
            let done = files[step % 2].append(&mut &b"12345"[..]).unwrap();
            assert_eq!(done, (step as u64 * 5, 5), "with a service: {with}");
        }
        drop(files);
        let file = open_file(&*all[0], "f").unwrap();
        assert_eq!(read_all(&*file).unwrap(), b"12345".repeat(20));
    }
}

#[test]
fn appends_with_and_without_the_service_are_behind_each_other() {
    let scratch = Scratch::new(1);
    let _service = Running::new(&socket(&scratch));
    one_after_the_other(&runs(&scratch, 2, 1), 100, false, |_| ());
}

#[test]
fn services_and_forks_that_come_and_go_change_nothing() {
    let scratch = Scratch::new(1);
    let mut service = None;
    let all = runs(&scratch, 3, 0);
    one_after_the_other(&all, 600, true, |step| {
        // As if this were a child of each.
        if step % 37 == 36 {
            all[step % 3].forked(false);
        }
        if step % 60 == 20 {
            service = Some(Running::new(&socket(&scratch)));
        } else if step % 60 == 50 {
            service = None;
        }
    });
}

/// Runs of other hosts ask by TCP, beside those of the service's own host, and its successors.
#[test]
fn hosts_append_by_the_service_that_has_the_lease() {
    let scratch = Scratch::new(2);
    let local = format!("sync={}", scratch.root.join("0").display());
    let all: Vec<_> = [&local[..], "sync=hosts", "sync=hosts"]
        .iter()
        .map(|option| scratch.open(&[*option]))
        .collect();
    let mut service = Some(of_hosts(&scratch, "0", None));
    one_after_the_other(&all, 300, true, |step| {
        if step % 100 == 99 {
            service = None;
            service = Some(of_hosts(&scratch, "0", None));
        }
    });
    assert_eq!(service.map(|(_, lease)| lease.epoch()), Some(4));
}

/// A back end whose secret others can read has no service for its mounts, and they append by locks.
#[test]
fn a_secret_that_others_can_read_is_not_used() {
    let scratch = Scratch::new(1);
    let service = of_hosts(&scratch, "0", None);
    let secret = scratch.backends[0].join(".culvert-sync/secret");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let fs = scratch.open(&["sync=hosts"]);
    let file = create_file(&*fs, "f");
    assert_eq!(file.append(&mut &b"first"[..]).unwrap(), (0, 5));
    // Nobody holds the file: a service would for a moment.
    let meta = std::fs::File::open(scratch.backends[0].join("f/meta")).unwrap();
    assert!(meta.try_lock().is_ok());
    drop(service);
}

/// Table II of the paper, with four writers that know nothing of each other: the file has all that
/// they wrote, and of each one in its order.
#[test]
fn four_appenders_write_four_times_what_one_does() {
    for kilobytes in [64, 256, 1024] {
        let scratch = Scratch::new(1);
        let _service = Running::new(&socket(&scratch));
        let all = runs(&scratch, 4, 0);
        drop(create_file(&*all[0], "f"));
        thread::scope(|scope| {
            for (writer, fs) in all.iter().enumerate() {
                scope.spawn(move || {
                    let file = open_for(&**fs, "f", OpenFlags::WRITE).unwrap();
                    for record in 0..kilobytes / 4 {
                        let mut bytes = [writer as u8; 4096];
                        bytes[1..3].copy_from_slice(&(record as u16).to_le_bytes());
                        assert_eq!(file.append(&mut &bytes[..]).unwrap().1, 4096);
                    }
                });
            }
        });
        let file = open_file(&*all[0], "f").unwrap();
        let content = read_all(&*file).unwrap();
        assert_eq!(content.len(), 4 * kilobytes * 1024);
        let mut next = [0u16; 4];
        for record in content.chunks_exact(4096) {
            let writer = record[0];
            let number = u16::from_le_bytes([record[1], record[2]]);
            assert!(record[3..].iter().all(|byte| *byte == writer));
            assert_eq!(number, next[writer as usize]);
            next[writer as usize] += 1;
        }
    }
}

/// What is asked of the service by hand.
struct Hand(std::os::fd::OwnedFd, FileId);

impl Hand {
    fn new(scratch: &Scratch, name: &str) -> Self {
        let kind = SocketType::SEQPACKET;
        let one = net::socket(AddressFamily::UNIX, kind, None).unwrap();
        net::connect(&one, &SocketAddrUnix::new(socket(scratch)).unwrap()).unwrap();
        let found = std::fs::metadata(scratch.backends[0].join(name)).unwrap();
        let (device, inode) = (found.dev(), found.ino());
        Self(one, FileId { device, inode })
    }

    fn ask(&self, ask: Ask<'_>) -> Answer {
        let request = Request { file: self.1, ask };
        net::send(&self.0, &request.encode(), SendFlags::NOSIGNAL).unwrap();
        let mut answer = [0; ANSWER];
        let length = net::recv(&self.0, &mut answer, RecvFlags::empty())
            .unwrap()
            .0;
        Answer::decode(&answer[..length]).unwrap()
    }
}

/// A writer that is killed between the position and the write: its bytes are no data. They are a
/// hole where somebody was given the position behind, and are not there where nobody was.
#[test]
fn a_position_that_was_never_written_is_no_data() {
    let scratch = Scratch::new(1);
    let _service = Running::new(&socket(&scratch));
    let all = runs(&scratch, 1, 0);
    let file = create_file(&*all[0], "f");
    assert_eq!(file.append(&mut &b"first"[..]).unwrap(), (0, 5));
    let container = scratch.backends[0].join("f").canonicalize().unwrap();
    let dead = Hand::new(&scratch, "f");
    let Answer::Held(turn, _) = dead.ask(Ask::Hold(container.as_os_str().as_bytes())) else {
        panic!("not held");
    };
    let (count, size) = (100, 5);
    let given = dead.ask(Ask::Append { turn, count, size });
    assert!(matches!(given, Answer::Position(5) | Answer::NotHeld));
    drop(dead);
    assert_eq!(file.attributes(&caller()).unwrap().size, 5);
    assert_eq!(read_all(&*file).unwrap(), b"first");
    // In the same turn it is behind the hole, in a later one there is none.
    let (at, _) = file.append(&mut &b"next"[..]).unwrap();
    assert!(at == 5 || at == 105, "{at}");
    let want = [&b"first"[..], &vec![0; at as usize - 5], b"next"].concat();
    assert_eq!(file.attributes(&caller()).unwrap().size, at + 4);
    assert_eq!(read_all(&*file).unwrap(), want);
}

/// A program's memory of which `good` bytes can be read; `between` is called once some were.
struct Faulting<'a> {
    left: usize,
    good: usize,
    between: &'a mut dyn FnMut(),
}

impl Source for Faulting<'_> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        (self.between)();
        let count = into.len().min(self.left).min(self.good);
        if count == 0 {
            return Err(Errno::EFAULT.into());
        }
        into[..count].fill(b'a');
        (self.good, self.left) = (self.good - count, self.left - count);
        Ok(count)
    }
}

/// Memory that ends in the middle of an append, while another process appends: each has the room of
/// what it has written, and there is no hole. Nor does one wait for the other's bytes.
#[test]
fn an_append_that_is_cut_short_leaves_no_hole() {
    for with in [0, 2] {
        let scratch = Scratch::new(1);
        let _service = (with > 0).then(|| Running::new(&socket(&scratch)));
        let all = runs(&scratch, with, 2 - with);
        drop(create_file(&*all[0], "f"));
        let files = [&all[0], &all[1]].map(|fs| open_for(&**fs, "f", OpenFlags::WRITE).unwrap());
        let mut want = 0;
        for good in [300_000, 1, 0, 131_072, 200_000] {
            let mut between = || {
                let done = files[1].append(&mut &b"another"[..]).unwrap();
                assert_eq!(done, (want, 7), "with a service: {with}");
                want += 7;
            };
            let mut from = Faulting {
                left: 1 << 20,
                good,
                between: &mut between,
            };
            let done = files[0].append(&mut from).map_err(|error| error.errno());
            match good {
                0 => assert_eq!(done, Err(Errno::EFAULT)),
                good => assert_eq!(done, Ok((want, good)), "with a service: {with}"),
            }
            want += good as u64;
        }
        drop(files);
        let content = read_all(&*open_file(&*all[0], "f").unwrap()).unwrap();
        assert_eq!(content.len() as u64, want);
        assert!(content.iter().all(|byte| *byte != 0));
    }
}

/// The size is what was written, whatever the service had given out when it died.
#[test]
fn a_size_is_seen_at_once_where_the_service_died() {
    let scratch = Scratch::new(1);
    let mut service = Some(Running::new(&socket(&scratch)));
    let all = runs(&scratch, 2, 1);
    let file = create_file(&*all[0], "f");
    let others = [1, 2].map(|at| open_file(&*all[at], "f").unwrap());
    let container = scratch.backends[0].join("f").canonicalize().unwrap();
    let mut size = 0;
    for step in 0..12 {
        for other in &others {
            assert_eq!(other.attributes(&caller()).unwrap().size, size);
        }
        if step % 3 == 2 {
            let hand = Hand::new(&scratch, "f");
            let held = hand.ask(Ask::Hold(container.as_os_str().as_bytes()));
            if let Answer::Held(turn, _) = held {
                let count = 100;
                hand.ask(Ask::Append { turn, count, size });
            }
            service = None;
        }
        let (at, count) = file.append(&mut &b"12345"[..]).unwrap();
        size = at + count as u64;
        for other in &others {
            assert_eq!(other.attributes(&caller()).unwrap().size, size);
        }
        if service.is_none() {
            service = Some(Running::new(&socket(&scratch)));
        }
    }
}

/// Whoever has the service's memory may write anything into it: appends go on, each where it says.
#[test]
fn what_others_write_into_the_memory_does_no_harm() {
    let scratch = Scratch::new(1);
    let _service = Running::new(&socket(&scratch));
    let all = runs(&scratch, 2, 0);
    let files = {
        drop(create_file(&*all[0], "f"));
        [&all[0], &all[1]].map(|fs| open_for(&**fs, "f", OpenFlags::READ_WRITE).unwrap())
    };
    let hand = Hand::new(&scratch, "f");
    let request = Request {
        file: hand.1,
        ask: Ask::Share,
    };
    net::send(&hand.0, &request.encode(), SendFlags::NOSIGNAL).unwrap();
    let (of, mut answer) = (BorrowedFd::number(hand.0.as_raw_fd()), [0; ANSWER]);
    let (_, memory) = culvert_sys::net::receive_with(of, &mut answer, 0).unwrap();
    let both = Protection::READ | Protection::WRITE;
    let mapping = Mapping::new(Of::file(&memory.unwrap()), LENGTH, both).unwrap();
    // SAFETY: it is so long, and reached as atomic words alone.
    let words =
        unsafe { std::slice::from_raw_parts(mapping.start().cast::<AtomicU64>(), LENGTH / 8) };
    let life = words[0].load(SeqCst);
    let most = (1 << 48) - 1;
    for step in 0..40u64 {
        let file = &files[step as usize % 2];
        // All words but that of life, then that too.
        for word in &words[1..] {
            let found = word.load(SeqCst);
            let forged = match step % 8 {
                0 => 0,
                1 => u64::MAX,
                2 => found | most,
                3 => found & !most | (most / 2),
                4 => found.wrapping_add(1 << 48),
                5 => found & !most,
                _ => found,
            };
            word.store(forged, SeqCst);
        }
        words[0].store([life, 0, u64::MAX][step as usize / 8 % 3], SeqCst);
        let line = format!("{step:05}");
        let (at, count) = file.append(&mut line.as_bytes()).unwrap();
        let mut found = [0; 5];
        file.read_at(at, &mut &mut found[..]).unwrap();
        assert_eq!((count, &found[..]), (5, line.as_bytes()), "{step} at {at}");
    }
}

/// Who holds the file for no purpose keeps nobody from it for long.
#[test]
fn a_service_that_holds_a_file_lets_others_cut_it() {
    let scratch = Scratch::new(1);
    let _service = Running::new(&socket(&scratch));
    let all = runs(&scratch, 1, 1);
    let file = create_file(&*all[0], "f");
    let other = open_for(&*all[1], "f", OpenFlags::READ_WRITE).unwrap();
    for at in 0..20 {
        file.append(&mut &b"0123456789"[..]).unwrap();
        let changes = SetAttributes {
            size: Some(3),
            ..SetAttributes::default()
        };
        let cuts = if at % 2 == 0 { &file } else { &other };
        cuts.set_attributes(&caller(), &changes).unwrap();
        assert_eq!(file.append(&mut &b"x"[..]).unwrap(), (3, 1), "{at}");
    }
}
