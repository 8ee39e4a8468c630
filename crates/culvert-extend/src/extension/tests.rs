use super::*;
use crate::loaded;
use culvert_sys::{flags::Protection, memory::Mapping, memory::Of};

const SMALL: usize = 64;

/// The extension without a kernel.
fn made() -> Extension {
    let memory = |size: usize| {
        let both = Protection::READ | Protection::WRITE;
        Mapping::near(0, Of::Nothing, size.next_multiple_of(PAGE), both).expect("memory")
    };
    let parts = Parts {
        metadata: true,
        xattr: true,
        ..Parts::default()
    };
    let mut counts = [1, SMALL, SMALL, SMALL].into_iter();
    let mappings = Tables::SIZES.map(|size| memory(size * counts.next().unwrap_or(1)));
    let tables = Tables::new(mappings, [SMALL; 3]);
    tables.begin(parts.bits());
    Extension::of(tables, &parts)
}

fn entry(node: u64, size: u64) -> EntryOut {
    EntryOut {
        nodeid: node,
        entry_valid: 60,
        attr_valid: 60,
        attr: Attr {
            ino: node,
            size,
            nlink: 1,
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

fn node(number: u64) -> Touched<'static> {
    Touched {
        nodes: [number, 0, 0],
        ..Touched::default()
    }
}

#[test]
fn what_was_answered_is_answered_again() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    assert_eq!(extension.tables.attributes(7, now()), Some(5));
    assert_eq!(extension.tables.looked_up(1, b"g", now()), None);
    assert_eq!(extension.tables.looked_up(2, b"f", now()), None);
    // A minute later it is not.
    assert_eq!(extension.tables.attributes(7, now() + 60_000_000_001), None);
    extension.entry(1, b"none", &entry(0, 0), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"none", now()), Some(0));
    let long = [b'x'; 64];
    extension.entry(1, &long, &entry(7, 5), &extension.before());
    assert_eq!(extension.tables.looked_up(1, &long, now()), None);
}

#[test]
fn what_must_not_be_believed_is_not_kept() {
    let extension = made();
    let unbelieved = EntryOut {
        entry_valid: 0,
        attr_valid: 0,
        ..entry(7, 5)
    };
    extension.entry(1, b"f", &unbelieved, &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    assert_eq!(extension.tables.attributes(7, now()), None);
}

#[test]
fn a_reply_does_not_overwrite_a_later_change() {
    let extension = made();
    // Read before the change, answered while it is made, or after it.
    let before = extension.before();
    extension.begin(&node(7));
    extension.entry(1, b"f", &entry(7, 5), &before);
    assert_eq!(extension.tables.attributes(7, now()), None);
    let within = extension.before();
    extension.end(&node(7));
    extension.entry(1, b"f", &entry(7, 5), &before);
    extension.entry(1, b"f", &entry(7, 5), &within);
    assert_eq!(extension.tables.attributes(7, now()), None);
    extension.entry(1, b"f", &entry(7, 6), &extension.before());
    assert_eq!(extension.tables.attributes(7, now()), Some(6));
}

#[test]
fn a_name_whose_attributes_are_stale_is_not_answered() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    extension.changed(&node(7));
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    let found = AttrOut {
        attr_valid: 60,
        attr: Attr {
            size: 9,
            nlink: 1,
            ..Attr::default()
        },
        ..AttrOut::default()
    };
    extension.attributes(7, &found, &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    assert_eq!(extension.tables.attributes(7, now()), Some(9));
}

#[test]
fn a_rename_takes_both_names_and_what_was_there() {
    let extension = made();
    for (dir, name, node) in [(2, b"a", 7), (3, b"b", 8), (2, b"c", 9)] {
        extension.entry(dir, name, &entry(node, 5), &extension.before());
    }
    extension.entry(3, b"n", &entry(0, 0), &extension.before());
    extension.changed(&Touched {
        nodes: [2, 3, 0],
        names: [Some((2, b"a")), Some((3, b"b"))],
        behind: true,
        ..Touched::default()
    });
    for (dir, name) in [(2, b"a"), (3, b"b")] {
        assert_eq!(extension.tables.looked_up(dir, name, now()), None);
    }
    assert_eq!(extension.tables.attributes(7, now()), None);
    assert_eq!(extension.tables.attributes(8, now()), None);
    assert_eq!(extension.tables.looked_up(2, b"c", now()), Some(9));
    assert_eq!(extension.tables.looked_up(3, b"n", now()), Some(0));
    // Whose last name goes is not known: all attributes are stale.
    extension.changed(&Touched {
        nodes: [2, 0, 0],
        names: [Some((2, b"unknown")), None],
        behind: true,
        ..Touched::default()
    });
    assert_eq!(extension.tables.looked_up(2, b"c", now()), None);
}

#[test]
fn nothing_is_kept_of_an_open_file() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    let open = Touched {
        opened: 7,
        ..node(7)
    };
    extension.changed(&open);
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.tables.attributes(7, now()), None);
    extension.changed(&Touched {
        closed: 7,
        ..node(7)
    });
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.tables.attributes(7, now()), Some(5));
}

#[test]
fn absent_xattrs_go_with_the_attributes() {
    let extension = made();
    let before = extension.before();
    extension.entry(1, b"f", &entry(7, 5), &before);
    extension.xattr(7, b"security.selinux", None, 0, &before);
    extension.xattr(7, b"user.other", None, 0, &before);
    assert!(extension.tables.is_absent(7, 1) && !extension.tables.is_absent(7, 0));
    extension.changed(&node(7));
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert!(!extension.tables.is_absent(7, 1));
    extension.xattr(7, b"security.selinux", None, 0, &before);
    assert!(!extension.tables.is_absent(7, 1));
}

#[test]
fn a_node_that_is_held_is_held_on_with_newer_attributes() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    extension.xattr(7, b"user.a", Some(b"one"), MINUTE, &extension.before());
    assert_eq!(extension.forgotten(7, 1), 0);
    // A listing brings it again, and the driver knows of that.
    extension.entry(1, b"f", &entry(7, 6), &extension.before());
    assert!(extension.over().is_empty());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    assert!(extension.tables.xattr(7, b"user.a", now()).is_some());
    // Two that the kernel had, one of which the program gave it; one is held as before.
    assert_eq!(extension.forgotten(7, 2), 1);
    extension.changed(&node(7));
    assert_eq!(extension.over(), [7]);
}

const MINUTE: u64 = 60_000_000_000;

#[test]
fn extended_attributes_are_kept_with_their_values() {
    let extension = made();
    let put = |name: &[u8], value: Option<&[u8]>| {
        extension.xattr(7, name, value, MINUTE, &extension.before());
        extension.tables.xattr(7, name, now())
    };
    let all: [(&[u8], Option<&[u8]>); 5] = [
        (b"user.a", Some(b"one")),
        (b"user.empty", Some(b"")),
        (b"user.long", Some(&[7; VALUE])),
        (b"user.none", None),
        (b"", Some(b"user.a\0user.empty\0")),
    ];
    for (name, value) in all {
        let expected = Some(value.map(<[u8]>::to_vec));
        assert_eq!(put(name, value), expected, "{}", name.escape_ascii());
    }
    assert_eq!(extension.tables.xattr(8, b"user.a", now()), None);
    assert_eq!(
        extension.tables.xattr(7, b"user.a", now() + MINUTE + 1),
        None
    );
    // What others are not shown, what is computed, what changes with the file, what is too long.
    let none: [(&[u8], Option<&[u8]>); 7] = [
        (b"", Some(b"user.a\0trusted.b\0")),
        (b"trusted.b", None),
        (b"user.mergerfs.basepath", Some(b"/a")),
        (b"security.capability", Some(b"x")),
        (b"security.ima", None),
        (b"user.longer", Some(&[7; VALUE + 1])),
        (&[b'x'; 64], Some(b"y")),
    ];
    for (name, value) in none {
        let before = extension.tables.xattr(7, name, now());
        extension.xattr(7, name, value, MINUTE, &extension.before());
        assert_eq!(extension.tables.xattr(7, name, now()), before);
        assert!(before.is_none() || name.is_empty());
    }
}

#[test]
fn extended_attributes_hold_until_they_change_whatever_is_written() {
    let extension = made();
    let put = |node| extension.xattr(node, b"user.a", Some(b"one"), MINUTE, &extension.before());
    let is_kept = |node| extension.tables.xattr(node, b"user.a", now()).is_some();
    put(7);
    // Data is written, the file is open.
    extension.changed(&Touched {
        opened: 7,
        ..node(7)
    });
    assert!(is_kept(7));
    let before = extension.before();
    let set = Touched {
        xattrs: true,
        ..node(7)
    };
    let _ = extension.begin(&set);
    assert!(!is_kept(7));
    // Read before, answered while it is changed, and after.
    extension.xattr(7, b"user.a", Some(b"one"), MINUTE, &before);
    assert!(!is_kept(7));
    extension.end(&set);
    extension.xattr(7, b"user.a", Some(b"one"), MINUTE, &before);
    assert!(!is_kept(7));
    put(7);
    assert!(is_kept(7));
    // The number is another file's.
    extension.stale(7);
    assert!(!is_kept(7));
    put(7);
    extension.everything();
    assert!(!is_kept(7));
    // Not to be believed.
    extension.xattr(7, b"user.a", Some(b"one"), 0, &extension.before());
    assert!(!is_kept(7));
}

#[test]
fn the_driver_forgets_what_it_knows_of_and_no_more() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    // The driver knows of one reference, the program has given two.
    for _ in 0..2 {
        assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    }
    // As long as it is in the table, one is kept.
    assert_eq!(extension.forgotten(7, 3), 0);
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    assert_eq!(extension.forgotten(7, 1), 0);
    assert!(extension.over().is_empty());
    extension.changed(&node(7));
    assert_eq!(extension.over(), [7]);
}

#[test]
fn a_listing_brings_names_unless_somebody_else_changed_the_directory() {
    let extension = made();
    let before = extension.before();
    extension.changed(&node(1));
    extension.entry(1, b"f", &entry(7, 5), &before.clone().and(&node(1)));
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    extension.changed(&node(1));
    extension.entry(1, b"g", &entry(7, 5), &before.and(&node(1)));
    assert_eq!(extension.tables.looked_up(1, b"g", now()), None);
}

#[test]
fn what_has_no_name_any_more_is_not_kept_for_it() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    extension.entry(1, b"g", &entry(8, 5), &extension.before());
    assert_eq!(extension.forgotten(8, 1), 0);
    // By a name that is not in the table: nobody knows which node it was.
    extension.changed(&Touched {
        nodes: [2, 0, 0],
        names: [Some((2, b"unknown")), None],
        behind: true,
        ..Touched::default()
    });
    assert_eq!(extension.over(), [8]);
    assert_eq!(extension.forgotten(7, 1), 1);
    let mut removed = AttrOut {
        attr_valid: 60,
        ..AttrOut::default()
    };
    extension.attributes(7, &removed, &extension.before());
    assert_eq!(extension.tables.attributes(7, now()), None);
    removed.attr.nlink = 1;
    extension.attributes(7, &removed, &extension.before());
    assert_eq!(extension.tables.attributes(7, now()), Some(0));
}

#[test]
fn the_reference_that_is_kept_becomes_the_kernels() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.forgotten(7, 1), 0);
    // The kernel has one that the driver does not know of, and the table none any more.
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    extension.changed(&node(7));
    assert!(extension.over().is_empty());
    assert_eq!(extension.forgotten(7, 1), 1);
}

#[test]
fn another_node_takes_the_place_and_the_counts_stay() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), Some(7));
    for number in 100..1000 {
        extension.attributes_of(
            &mut extension.books(),
            number,
            &entry(number, 1).attr,
            Some(EVER),
            &extension.before(),
        );
    }
    assert_eq!(extension.tables.attributes(7, now()), None);
    assert_eq!(extension.forgotten(7, 2), 1);
}

#[test]
fn a_number_that_is_given_again_leads_no_old_name_to_another_file() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    extension.changed(&node(7));
    assert_eq!(extension.forgotten(7, 1), 1);
    extension.entry(1, b"g", &entry(7, 9), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    assert_eq!(extension.tables.looked_up(1, b"g", now()), Some(7));
    // What is held keeps its number, and its names.
    assert_eq!(extension.forgotten(7, 2), 0);
    assert_eq!(extension.tables.looked_up(1, b"g", now()), Some(7));
}

#[test]
fn names_in_a_directory_that_the_driver_has_let_go_of_are_not_answered() {
    let extension = made();
    extension.entry(1, b"d", &entry(2, 5), &extension.before());
    let none = EntryOut {
        attr_valid: 0,
        ..entry(0, 0)
    };
    extension.entry(2, b"none", &none, &extension.before());
    // Its own attributes are stale; it is held for its names.
    extension.changed(&node(2));
    assert_eq!(extension.forgotten(2, 1), 0);
    assert_eq!(extension.tables.looked_up(2, b"none", now()), Some(0));
    assert!(extension.over().is_empty());
    // No longer than they are believed.
    assert_eq!(extension.over_at(now() + 61_000_000_000), [2]);
    assert_eq!(extension.tables.looked_up(2, b"none", now()), None);
    // Nor when it is removed.
    extension.entry(1, b"d", &entry(2, 5), &extension.before());
    extension.entry(2, b"none", &none, &extension.before());
    extension.changed(&node(2));
    assert_eq!(extension.forgotten(2, 1), 0);
    extension.changed(&Touched {
        names: [Some((1, b"d")), None],
        behind: true,
        ..node(1)
    });
    assert_eq!(extension.over(), [2]);
    // As one that is not held.
    extension.entry(1, b"d", &entry(2, 5), &extension.before());
    extension.entry(2, b"none", &none, &extension.before());
    extension.everything();
    assert_eq!(extension.forgotten(2, 1), 1);
    assert_eq!(extension.tables.looked_up(2, b"none", now()), None);
}

#[test]
fn an_answer_that_differs_takes_what_was_kept_along() {
    let extension = made();
    let all = |name: &[u8]| extension.entry(1, name, &entry(7, 5), &extension.before());
    all(b"f");
    extension.unknown(1, b"f");
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    // ENOENT that the kernel may not believe.
    all(b"f");
    extension.entry(1, b"f", &EntryOut::default(), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    // A listing that somebody else's change has overtaken: the kernel has newer attributes.
    all(b"f");
    let before = extension.before();
    extension.changed(&node(1));
    extension.changed(&node(7));
    extension.attributes(7, &AttrOut::default(), &extension.before());
    extension.entry(1, b"f", &entry(8, 5), &before);
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
    all(b"f");
    extension.stale(7);
    assert_eq!(extension.tables.attributes(7, now()), None);
    assert_eq!(extension.tables.looked_up(1, b"f", now()), None);
}

#[test]
fn a_name_that_nobody_believes_tells_whose_attributes_go_with_it() {
    let extension = made();
    let unbelieved = EntryOut {
        entry_valid: 0,
        ..entry(7, 5)
    };
    extension.entry(1, b"new", &unbelieved, &extension.before());
    extension.entry(1, b"c", &entry(9, 5), &extension.before());
    assert_eq!(extension.tables.looked_up(1, b"new", now()), None);
    extension.entry(2, b"place", &EntryOut::default(), &extension.before());
    let rename = Touched {
        nodes: [1, 2, 0],
        names: [Some((1, b"new")), Some((2, b"place"))],
        behind: true,
        ..Touched::default()
    };
    let before = extension.before();
    let led = extension.begin(&rename);
    extension.end(&rename);
    assert_eq!(led, [Some(7), Some(0)]);
    extension.renamed(&rename, led, &before.and(&rename));
    assert_eq!(extension.tables.looked_up(2, b"place", now()), None);
    // Both names are known, so nothing else is touched.
    for (dir, name) in [(1, &b"new"[..]), (2, b"place")] {
        extension.changed(&Touched {
            nodes: [dir, 0, 0],
            names: [Some((dir, name)), None],
            behind: true,
            ..Touched::default()
        });
        assert_eq!(extension.tables.attributes(9, now()), Some(5));
    }
}

#[test]
fn what_is_held_is_given_back_when_it_is_stale() {
    let extension = made();
    extension.entry(1, b"f", &entry(7, 5), &extension.before());
    assert_eq!(extension.forgotten(7, 1), 0);
    assert!(extension.over().is_empty());
    assert_eq!(extension.over_at(now() + 61_000_000_000), [7]);
}

/// On a machine that lets this process do it.
#[test]
fn the_verifier_takes_the_program() {
    let object = Object::read(OBJECT).expect("an object");
    assert_eq!(object.maps.len(), TABLES + 1);
    let maps: Result<Vec<_>, _> = object
        .maps
        .iter()
        .map(|(_, kind)| bpf::map(kind, loaded::NAME))
        .collect();
    let Ok(maps) = maps else { return };
    let descriptors: Vec<_> = maps.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    if let Err(said) = bpf::program(&object.code(&descriptors), loaded::NAME) {
        // Not allowed to load any.
        assert!(said.starts_with("Operation not permitted"), "{said}");
    }
}
