//! What is believed without a question, and until when: the kernel's rules, for all processes.

use crate::{
    channel::Line,
    conformance::Scratch,
    hostile::server::{Server, replied},
    ours::Served,
};
use culvert::{
    Access, Caller, Errno, File, FileSystem, OpenFlags, Opened, SetAttributes,
    testing::{Memory, caller},
};
use culvert_wire::{
    Operation, Plain,
    structures::{Attr, AttrOut, EntryOut},
};
use std::sync::atomic::Ordering::SeqCst;

pub const WHO: Caller<'static> = caller();

fn made(client: &dyn FileSystem, name: &[u8]) -> (culvert::Node, Box<dyn File>) {
    made_in(client, client.root(), name)
}

pub fn made_in(
    client: &dyn FileSystem,
    dir: culvert::Node,
    name: &[u8],
) -> (culvert::Node, Box<dyn File>) {
    let made = client.create(&WHO, dir, name, OpenFlags::READ_WRITE, 0o644);
    let (entry, opened) = made.expect("it can be made");
    match opened {
        Opened::Driven(file) => (entry.attributes.node, file),
        Opened::Backed(_) => panic!("a driver of its own"),
    }
}

#[test]
fn what_the_server_lets_believe_costs_no_request() {
    let served = Served::new(Box::new(Memory::new()));
    let client = served.client();
    let root = client.root();
    let (node, _file) = made(&client, b"file");
    served.line.counted();
    for _ in 0..3 {
        assert_eq!(
            client
                .lookup(&WHO, root, b"file")
                .expect("is there")
                .attributes
                .node,
            node
        );
        client.attributes(&WHO, node).expect("it has some");
    }
    let counted = served.line.counted();
    assert!(counted.is_empty(), "{counted:?}");
}

#[test]
fn the_time_of_birth_is_asked_for_once_and_brings_the_attributes() {
    let served = Served::new(Box::new(Memory::new()));
    let client = served.client();
    let (node, _file) = made(&client, b"file");
    served.line.counted();
    let found = client.attributes(&WHO, node).expect("it has some");
    let born = client.birth_time(&WHO, node).expect("it has one");
    assert_eq!(found.btime, None);
    assert!(born.is_some_and(|born| born <= found.mtime));
    assert_eq!(client.birth_time(&WHO, node).expect("it has one"), born);
    assert_eq!(client.attributes(&WHO, node).expect("it has some"), found);
    let counted = served.line.counted();
    assert_eq!(counted.get("Statx"), Some(&1), "{counted:?}");
    assert!(!counted.contains_key("Getattr"), "{counted:?}");
}

#[test]
fn what_one_process_changes_another_sees_at_once() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let (node, file) = made(&one, b"file");
    let sizes = || {
        let seen = other.lookup(&WHO, root, b"file").expect("is there");
        other.forget(node, 1);
        (
            seen.attributes.size,
            other.attributes(&WHO, node).expect("known").size,
        )
    };
    other.lookup(&WHO, root, b"file").expect("is there");
    assert_eq!(sizes(), (0, 0));
    file.write_at(0, &mut &b"hello"[..]).expect("it is written");
    assert_eq!(sizes(), (5, 5));
    let cut = SetAttributes {
        size: Some(2),
        ..SetAttributes::default()
    };
    one.set_attributes(&WHO, node, &cut).expect("it is cut");
    assert_eq!(sizes(), (2, 2));
    one.rename(&WHO, (root, b"file"), (root, b"else"), Default::default())
        .expect("it is renamed");
    let gone = other.lookup(&WHO, root, b"file").map(|_| ());
    assert_eq!(gone.expect_err("moved").errno(), Errno::ENOENT);
    other.lookup(&WHO, root, b"else").expect("there it is");
    one.unlink(&WHO, root, b"else").expect("it is removed");
    let gone = other.lookup(&WHO, root, b"else").map(|_| ());
    assert_eq!(gone.expect_err("removed").errno(), Errno::ENOENT);
    assert_eq!(file.attributes(&WHO).expect("it is open").links, 0);
}

#[test]
fn who_may_do_what_is_known_after_changes_of_bytes_and_names_alone() {
    let served = Served::with(
        Box::new(Memory::new()),
        culvert_server::Settings {
            valid: Some(std::time::Duration::from_secs(3600)),
            threads: 4,
            without: vec!["stay-awake".into()],
            ..culvert_server::Settings::default()
        },
    );
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let (node, file) = made(&one, b"file");
    one.attributes(&WHO, root).expect("it has some");
    let modes = || [root, node].map(|of| one.known_rights(&WHO, of).map(|of| of.permissions));
    let [of_root, of_file] = modes();
    assert!(of_root.is_some() && of_file.is_some());
    served.line.counted();
    one.mkdir(&WHO, root, b"made", 0o755).expect("it is made");
    file.write_at(0, &mut &b"bytes"[..]).expect("it is written");
    assert_eq!(modes(), [of_root, of_file]);
    assert!(!served.line.counted().contains_key("Getattr"));
    one.access(&WHO, root, Access::WRITE).expect("it may be");
    // A directory in which something was made, on the way to a name.
    let dir = one
        .lookup(&WHO, root, b"made")
        .expect("is there")
        .attributes
        .node;
    one.mkdir(&WHO, dir, b"below", 0o755).expect("it is made");
    served.line.counted();
    one.walk(&WHO, root, b"made/below").expect("is there");
    one.lookup(&WHO, root, b"made").expect("is there");
    let counted = served.line.counted();
    assert!(counted.is_empty(), "{counted:?}");
    // Size and times are asked for.
    assert_eq!(one.attributes(&WHO, node).expect("it has some").size, 5);
    assert_eq!(served.line.counted()["Getattr"], 1);
    // Others change the modes.
    other.lookup(&WHO, root, b"file").expect("is there");
    for (of, permissions) in [(root, 0o711), (node, 0o604)] {
        let changes = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        other
            .set_attributes(&WHO, of, &changes)
            .expect("it is changed");
    }
    let [of_root, of_file] = modes();
    assert!(of_root.is_none_or(|mode| mode == 0o711), "{of_root:?}");
    assert!(of_file.is_none_or(|mode| mode == 0o604), "{of_file:?}");
}

/// What a server says of a file, which is believed for so long.
fn file_entry(node: u64, seconds: u64) -> EntryOut {
    EntryOut {
        nodeid: node,
        entry_valid: seconds,
        attr_valid: seconds,
        attr: Attr {
            mode: 0o100644,
            nlink: 1,
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

/// A server whose names and attributes are believed for so long.
fn believed(seconds: u64) -> Server {
    Server::new(move |_, operation| match operation {
        Operation::Lookup { name } => {
            let none = name.bytes() == b"none";
            let entry = file_entry(if none { 0 } else { 2 }, seconds);
            Some(replied(entry.bytes()))
        }
        operation if operation.is_answered() => Some(replied(&[])),
        _ => None,
    })
}

#[test]
fn time_and_notices_end_belief() {
    for (seconds, notice, expected) in [(1000, false, 1), (0, false, 3), (1000, true, 3)] {
        let server = believed(seconds);
        let client = server.client();
        for _ in 0..3 {
            let found = client.lookup(&WHO, client.root(), b"name");
            found.expect("it is there");
            let none = client.lookup(&WHO, client.root(), b"none").map(|_| ());
            assert_eq!(none.expect_err("it is not").errno(), Errno::ENOENT);
            if notice {
                // FUSE_NOTIFY_INVAL_INODE, or any.
                let mut notice = [0; 40];
                (notice[0], notice[4]) = (40, 2);
                server.line.receive(&notice);
            }
        }
        assert_eq!(server.line.counted()["Lookup"], 2 * expected);
    }
}

#[test]
fn lookups_are_given_back_at_once_when_a_node_is_gone() {
    for forks in [false, true] {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        let counts = std::sync::Arc::new(AtomicU64::new(0));
        let counting = std::sync::Arc::clone(&counts);
        let server = Server::new(move |_, operation| match operation {
            Operation::Lookup { .. } => {
                counting.fetch_add(1, SeqCst);
                Some(replied(file_entry(2, 0).bytes()))
            }
            Operation::Forget { forget } => {
                counting.fetch_sub(forget.nlookup, SeqCst);
                None
            }
            operation if operation.is_answered() => Some(replied(&[])),
            _ => None,
        });
        let client = server.client();
        for _ in 0..3 {
            let found = client.lookup(&WHO, client.root(), b"name");
            found.expect("it is there");
        }
        client.forget(culvert::Node(2), 3);
        if forks {
            // From here on it is the child; the parent is there still.
            client.forked(false);
        }
        server.line.counted();
        client.finish();
        assert_eq!(server.line.counted().get("Forget"), None);
        // The parent is killed: the node is remembered for others.
        assert_eq!(server.line.gone().nodes, Vec::new());
        let other = server.client();
        let found = other.lookup(&WHO, other.root(), b"name");
        found.expect("it is there");
        other.forget(culvert::Node(2), 1);
        other.unlink(&WHO, other.root(), b"name").expect("it goes");
        assert_eq!(server.line.counted()["Forget"], 1);
        assert_eq!(counts.load(SeqCst), 0);
    }
}

#[test]
fn what_one_process_has_looked_up_no_other_asks_for() {
    let server = believed(1000);
    let (one, other, third) = (server.client(), server.client(), server.client());
    let node = |client: &culvert_client::FuseFs| {
        let found = client.lookup(&WHO, client.root(), b"name");
        found.expect("it is there").attributes.node
    };
    let absent = |client: &culvert_client::FuseFs| {
        let none = client.lookup(&WHO, client.root(), b"none").map(|_| ());
        assert_eq!(none.expect_err("it is not").errno(), Errno::ENOENT);
    };
    let known = node(&one);
    absent(&one);
    assert_eq!(server.line.counted()["Lookup"], 2);
    for client in [&other, &third] {
        assert_eq!(node(client), known);
        absent(client);
        client.attributes(&WHO, known).expect("it has some");
    }
    assert_eq!(server.line.counted(), Default::default());
    // The node stays when all have done with it, and nobody asks for it again.
    for client in [&one, &third, &other] {
        client.forget(known, 1);
        client.finish();
    }
    let later = server.client();
    assert_eq!(node(&later), known);
    assert_eq!(server.line.counted(), Default::default());
    let counts = culvert_client::Counts::of(server.line.words());
    assert_eq!((counts.found, counts.asked, counts.processes), (5, 2, 1));
}

#[test]
fn who_is_last_to_have_a_removed_file_gives_it_back() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let (node, file) = made(&one, b"file");
    let root = one.root();
    other.lookup(&WHO, root, b"file").expect("it is there");
    served.line.counted();
    other.unlink(&WHO, root, b"file").expect("it is removed");
    other.forget(node, 1);
    assert_eq!(served.line.counted().get("Forget"), None);
    drop(file);
    one.unlink(&WHO, root, b"file").expect_err("it is gone");
    one.forget(node, 1);
    assert_eq!(served.line.counted()["Forget"], 1);
}

#[test]
fn what_there_was_no_room_to_give_back_goes_before_the_next_request() {
    let served = Served::new(Box::new(Memory::new()));
    let client = served.client();
    let (node, file) = made(&client, b"file");
    let root = client.root();
    drop(file);
    client.unlink(&WHO, root, b"file").expect("it is removed");
    served.line.counted();
    served.line.full.store(true, SeqCst);
    client.forget(node, 1);
    assert_eq!(served.line.counted().get("Forget"), None);
    served.line.full.store(false, SeqCst);
    made(&client, b"other");
    made(&client, b"third");
    assert_eq!(served.line.counted()["Forget"], 1);
}

#[test]
fn what_the_server_keeps_for_all_is_bounded() {
    use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering::SeqCst};
    const MOST: u64 = 16384;
    let kept = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&kept);
    let server = Server::new(move |_, operation| match operation {
        Operation::Lookup { name } => {
            let node = str::from_utf8(name.bytes()).ok()?.parse().ok()?;
            counts.fetch_add(1, SeqCst);
            let entry = EntryOut {
                nodeid: node,
                entry_valid: 1000,
                attr_valid: 1000,
                attr: Attr {
                    mode: 0o100644,
                    nlink: 1,
                    ..Attr::default()
                },
                ..EntryOut::default()
            };
            Some(replied(entry.bytes()))
        }
        Operation::Forget { forget } => {
            counts.fetch_sub(forget.nlookup, SeqCst);
            None
        }
        Operation::BatchForget { forgets, .. } => {
            let all = forgets.iter().map(|one| one.nlookup).sum();
            counts.fetch_sub(all, SeqCst);
            None
        }
        _ => None,
    });
    for _ in 0..2 {
        let client = server.client();
        for number in 2..3 * MOST {
            let name = number.to_string();
            let found = client.lookup(&WHO, client.root(), name.as_bytes());
            client.forget(found.expect("it is there").attributes.node, 1);
        }
        assert!(kept.load(SeqCst) < 3 * MOST, "{kept:?}");
        client.finish();
        assert!(kept.load(SeqCst) <= MOST, "{kept:?}");
    }
    let counts = culvert_client::Counts::of(server.line.words());
    assert!(
        counts.evicted > MOST && counts.remembered < MOST,
        "{counts:?}"
    );
}

#[test]
fn what_a_killed_process_held_is_held_no_more() {
    let served = Served::new(Box::new(Memory::new()));
    let one = served.client();
    let (node, file) = made(&one, b"file");
    let root = one.root();
    let other = served.client();
    other.lookup(&WHO, root, b"file").expect("it is there");
    one.unlink(&WHO, root, b"file").expect("it is removed");
    drop(file);
    served.line.counted();
    one.forget(node, 1);
    assert_eq!(served.line.counted().get("Forget"), None);
    // The second is killed, which was the last.
    assert_eq!(served.line.gone().nodes, [(node.0, 1)]);
    assert_eq!(served.line.gone(), culvert_client::Left::default());
    std::mem::forget(other);
}

#[test]
fn what_others_change_while_a_name_is_made_is_asked_for() {
    use std::sync::{Arc, Mutex, Weak};
    for others in [false, true] {
        let line: Arc<Mutex<Weak<Line>>> = Arc::default();
        let asked = Arc::clone(&line);
        let attr = Attr {
            mode: 0o040755,
            nlink: 2,
            ..Attr::default()
        };
        let server = Server::new(move |_, operation| match operation {
            Operation::Mkdir { .. } => {
                // By the time of the answer, which does not say it.
                let mut changed = [0; 24];
                changed[0] = 2;
                let line = asked.lock().ok()?.upgrade();
                if let Some(line) = line.filter(|_| others) {
                    let heard = culvert_client::notices::hear(line.words(), 2, &changed);
                    assert_eq!(heard, culvert_client::notices::Heard::Counted);
                }
                let entry = EntryOut {
                    nodeid: 2,
                    entry_valid: 1000,
                    attr_valid: 1000,
                    attr,
                    ..EntryOut::default()
                };
                Some(replied(entry.bytes()))
            }
            Operation::Getattr { .. } => {
                let out = AttrOut {
                    attr_valid: 1000,
                    attr,
                    ..AttrOut::default()
                };
                Some(replied(out.bytes()))
            }
            operation if operation.is_answered() => Some(replied(&[])),
            _ => None,
        });
        *line.lock().expect("nobody panics") = Arc::downgrade(&server.line);
        let client = server.client();
        let made = client.mkdir(&WHO, client.root(), b"made", 0o755);
        let node = made.expect("it is made").attributes.node;
        server.line.counted();
        client.attributes(&WHO, node).expect("it has some");
        let counted = server.line.counted().get("Getattr").copied();
        assert_eq!(counted, others.then_some(1));
    }
}

#[test]
fn who_is_killed_in_a_change_has_told_nobody() {
    use std::sync::{Arc, Mutex, Weak};
    // What the guardian hears when the process is gone while the server has its request.
    let line: Arc<Mutex<Weak<Line>>> = Arc::default();
    let changed = Arc::new(Mutex::new(Vec::new()));
    let (asked, heard) = (Arc::clone(&line), Arc::clone(&changed));
    let server = Server::new(move |_, operation| {
        if let Operation::Mkdir { .. } = operation
            && let Some(line) = asked.lock().ok()?.upgrade()
        {
            heard.lock().ok()?.push(line.gone().changed);
        }
        match operation {
            operation if operation.is_answered() => Some(Err(Errno::EIO.raw())),
            _ => None,
        }
    });
    let client = server.client();
    *line.lock().expect("nobody panics") = Arc::downgrade(&server.line);
    let made = client.mkdir(&WHO, client.root(), b"made", 0o755);
    assert_eq!(made.map(|_| ()).expect_err("refused").errno(), Errno::EIO);
    assert_eq!(*changed.lock().expect("nobody panics"), [true]);
    // The next one has changed nothing yet.
    let next = server.client();
    next.lookup(&WHO, next.root(), b"made")
        .map(|_| ())
        .expect_err("refused");
    assert!(!server.line.gone().changed);
}

#[test]
fn files_of_several_processes_are_closed_with_their_run() {
    let served = Served::new(Box::new(Memory::new()));
    let settings = culvert_client::Settings {
        place: culvert_client::place(b"/run", b"/target"),
        ..crate::ours::settings()
    };
    let client = served.client_with(settings);
    let (node, file) = made(&client, b"file");
    file.shared();
    let words = served.line.words();
    assert_eq!(culvert_client::end_run(words, b"/other").files, []);
    let left = culvert_client::end_run(words, b"/run");
    assert_eq!((left.files.len(), left.files[0].0), (1, node.0));
    assert_eq!(culvert_client::end_run(words, b"/run").files, []);
}

/// libfuse would wait for itself.
/// A process that is killed at any instruction of the way between a file of its own and one of
/// several.
#[test]
fn a_file_that_is_about_to_be_shared_or_no_more_is_closed_once() {
    const WRITTEN: u64 = 1 << 62;
    const HANDED: u64 = 1 << 61;
    let served = Served::new(Box::new(Memory::new()));
    let settings = culvert_client::Settings {
        place: culvert_client::place(b"/run", b"/target"),
        ..crate::ours::settings()
    };
    let client = served.client_with(settings);
    let (node, file) = made(&client, b"file");
    let words = served.line.words();
    let before: Vec<_> = words.iter().map(|word| word.load(SeqCst)).collect();
    file.shared();
    let identity = served.line.identity();
    let open = 2;
    let state = (0..words.len()).find(|&at| {
        before[at] == 0 && words[at].load(SeqCst) == open && words[at + 2].load(SeqCst) == node.0
    });
    let state = &words[state.expect("it is shared")];
    for (left_in, is_own, closed) in [
        (WRITTEN | identity, true, 0),
        (HANDED | identity, true, 0),
        (HANDED | identity, false, 1),
        (WRITTEN | (identity + 1), false, 0),
        (open, false, 0),
    ] {
        state.store(left_in, SeqCst);
        let is_its = left_in != open && left_in & 1 == identity & 1;
        assert_eq!(culvert_client::has_shares(words, identity), is_its);
        let left = culvert_client::end_shares(words, identity, &|of, _| of == node.0 && is_own);
        assert_eq!(left.files.len(), closed, "{left_in:x}");
        assert!(!culvert_client::has_shares(words, identity));
        assert_eq!(state.load(SeqCst), if is_its { 0 } else { left_in });
    }
}

#[test]
fn what_all_share_may_be_anything() {
    let served = Served::new(Box::new(Memory::new()));
    let first = served.client();
    for name in [&b"a"[..], b"b", b"c"] {
        made(&first, name);
    }
    let mut random = 12345_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..200 {
        let client = served.client();
        let words = served.line.words();
        for _ in 0..words.len() / 8 {
            let at = next() as usize % words.len();
            let value = match next() % 4 {
                0 => next(),
                1 => words[next() as usize % words.len()].load(std::sync::atomic::Ordering::SeqCst),
                2 => next() % 8,
                _ => u64::MAX,
            };
            words[at].store(value, std::sync::atomic::Ordering::SeqCst);
        }
        let root = client.root();
        for name in [&b"a"[..], b"b", b"none"] {
            if let Ok(found) = client.lookup(&WHO, root, name) {
                let node = found.attributes.node;
                let _ = client.attributes(&WHO, node);
                if let Ok(Opened::Driven(file)) = client.open(&WHO, node, OpenFlags::READ) {
                    let _ = file.save();
                    let _ = client.restore(&WHO, node, OpenFlags::READ, &[7; 24]);
                }
                client.forget(node, 1);
            }
        }
        if round % 3 == 0 {
            client.forked(false);
        }
        client.finish();
        let _ = served.line.gone();
        let _ = culvert_client::end_run(words, b"/run");
    }
}

#[test]
fn a_request_that_the_server_does_not_have_is_made_once() {
    let server = Server::new(|_, operation| match operation {
        Operation::Lookup { .. } => {
            let entry = EntryOut {
                nodeid: 2,
                attr: Attr {
                    mode: 0o100644,
                    ..Attr::default()
                },
                ..EntryOut::default()
            };
            Some(replied(entry.bytes()))
        }
        operation if operation.is_answered() => Some(Err(Errno::ENOSYS.raw())),
        _ => None,
    });
    let settings = culvert_client::Settings {
        default_permissions: false,
        ..crate::ours::settings()
    };
    // Whichever process has made it.
    for first in [true, false] {
        let client = server.client_with(settings);
        let found = client.lookup(&WHO, client.root(), b"name");
        let node = found.expect("it is there").attributes.node;
        let opened = client.open(&WHO, node, OpenFlags::READ);
        let Ok(Opened::Driven(file)) = opened else {
            panic!("it needs no OPEN")
        };
        file.flush().expect("nothing is delayed");
        file.sync(false).expect("nothing is delayed");
        client
            .access(&WHO, node, culvert::Access::READ)
            .expect("nobody judges");
        let xattr = client.get_xattr(&WHO, node, b"user.a");
        assert_eq!(xattr.expect_err("none").errno(), Errno::EOPNOTSUPP);
        let allocated = file.allocate(0, 0, 1);
        assert_eq!(allocated.expect_err("not").errno(), Errno::EOPNOTSUPP);
        drop(file);
        let counted = server.line.counted();
        for name in ["Open", "Flush", "Fsync", "Access", "Getxattr", "Fallocate"] {
            assert_eq!(counted.get(name).copied(), first.then_some(1), "{name}");
        }
        assert_eq!(counted.get("Release"), None);
    }
}

#[test]
fn a_listing_brings_what_lookups_would() {
    let scratch = Scratch::new();
    let served = Served::new(scratch.memory());
    let client = served.client();
    let root = client.root();
    for number in 0..50 {
        made(&client, format!("{number}").as_bytes());
    }
    let fresh = served.client();
    served.line.counted();
    let mut seen = 0;
    let mut sink = |entry: culvert::DirectoryEntry<'_>| {
        let found = fresh.lookup(&WHO, root, entry.name).expect("it is there");
        assert_eq!(found.attributes.inode, entry.inode);
        seen += 1;
        true
    };
    fresh
        .read_directory(&WHO, root, 0, &mut sink)
        .expect("a directory");
    assert_eq!(seen, 50);
    let counted = served.line.counted();
    assert_eq!(counted.get("Lookup"), None, "{counted:?}");
}

#[test]
fn small_reads_are_read_ahead_until_somebody_writes() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let (node, file) = made(&one, b"file");
    let bytes: Vec<u8> = (0..1 << 20).map(|byte: u32| (byte >> 7) as u8).collect();
    file.write_at(0, &mut &bytes[..]).expect("it is written");
    other
        .lookup(&WHO, other.root(), b"file")
        .expect("it is there");
    let Ok(Opened::Driven(again)) = other.open(&WHO, node, OpenFlags::READ) else {
        panic!("it opens")
    };
    served.line.counted();
    let mut piece = [0; 4096];
    for (at, expected) in bytes.chunks(4096).enumerate() {
        let count = again.read_at(at as u64 * 4096, &mut &mut piece[..]);
        assert_eq!(count.expect("it is read"), 4096);
        assert_eq!(piece, expected);
        if at == 2 {
            file.write_at(3 * 4096, &mut &[9; 4096][..])
                .expect("it is written");
            let count = again.read_at(3 * 4096, &mut &mut piece[..]);
            assert_eq!(count.expect("it is read"), 4096);
            assert_eq!(piece, [9; 4096]);
            file.write_at(3 * 4096, &mut &bytes[3 * 4096..4 * 4096])
                .expect("it is written");
        }
    }
    let reads = served.line.counted()["Read"];
    assert!(reads < 20, "{reads} for 256 reads");
}
