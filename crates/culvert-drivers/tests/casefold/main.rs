//! The layer `casefold`.

mod model;
mod tools;

use culvert::testing::{Memory, Tree, fill, reading, writing};
use culvert::{
    Caller, Errno, FileSystem, Layer, Layered, Node, OpenFlags, RenameFlags, Result,
    testing::caller,
};
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tools::{Run, errno, layered, make, names, node};

#[test]
fn the_contract_is_kept() {
    writing(&|| layered(Box::new(Memory::new()), &[])).assert_ok();
    let strict = writing(&|| layered(Box::new(Memory::new()), &["strict"]));
    // Of the kit's names one is no UTF-8, and the creation of it refused.
    let other = strict.failures.iter().find(|one| one.rule != "create");
    assert!(other.is_none(), "{other:?}");
    let tree = Tree::new()
        .directory("Documents")
        .file("Documents/Straße", "s")
        .symlink("soft", "documents/STRASSE");
    let fs = layered(Box::new(Memory::new()), &[]);
    fill(&*fs, &tree).unwrap();
    reading(&*fs, &tree).assert_ok();
}

#[test]
fn a_name_is_found_in_whatever_case_and_stays_as_it_was_written() {
    let fs = layered(Box::new(Memory::new()), &[]);
    let root = fs.root();
    for (made, others) in [
        ("ReadMe", &["README", "readme", "ReadMe"][..]),
        ("Straße", &["STRASSE", "strasse", "STRAẞE"]),
        ("caf\u{e9}", &["CAFE\u{301}", "Caf\u{c9}", "cafe\u{301}"]),
        ("soft\u{ad}hyphen", &["SOFTHYPHEN"]),
    ] {
        let (entry, _) = fs
            .create(
                &caller(),
                root,
                made.as_bytes(),
                OpenFlags::READ_WRITE,
                0o644,
            )
            .unwrap();
        for other in others {
            let other = other.as_bytes();
            let found = node(&*fs, root, other).unwrap();
            assert_eq!(found, entry.attributes.node, "{made} {other:?}");
            // open(2) with O_CREAT opens what is there, with O_EXCL it is EEXIST.
            let flags = OpenFlags::READ_WRITE;
            let (again, _) = fs.create(&caller(), root, other, flags, 0o600).unwrap();
            assert_eq!(again.attributes.node, entry.attributes.node);
            let flags = flags.with(OpenFlags::EXCLUSIVE);
            let exclusive = fs.create(&caller(), root, other, flags, 0o600);
            assert_eq!(errno(exclusive), Some(Errno::EEXIST));
            for refused in [
                errno(fs.mkdir(&caller(), root, other, 0o755)),
                errno(fs.symlink(&caller(), root, other, b"x")),
                errno(fs.mknod(&caller(), root, other, 0o010644, 0)),
                errno(fs.link(&caller(), found, root, other)),
            ] {
                assert_eq!(refused, Some(Errno::EEXIST), "{other:?}");
            }
            assert_eq!(names(&*fs, root), [made.as_bytes()]);
        }
        fs.unlink(&caller(), root, others[0].as_bytes()).unwrap();
        assert!(names(&*fs, root).is_empty());
    }
}

#[test]
fn renames() {
    let none = RenameFlags::default();
    let no_replace = RenameFlags(RenameFlags::NO_REPLACE);
    let exchange = RenameFlags(RenameFlags::EXCHANGE);
    for (there, from, to, flags, want, left) in [
        // To another case of its name: that changes.
        (&["Foo"][..], "Foo", "foo", none, None, &["foo"][..]),
        (&["Foo"], "FOO", "foo", none, None, &["foo"]),
        (&["Foo"], "FOO", "Foo", none, None, &["Foo"]),
        // Onto a name that is there in another case: it stays as it was written.
        (&["Foo", "bar"], "BAR", "FOO", none, None, &["Foo"]),
        (&["Foo", "bar"], "bar", "baz", none, None, &["Foo", "baz"]),
        (&["Foo"], "none", "FOO", none, Some(Errno::ENOENT), &["Foo"]),
        (
            &["Foo", "bar"],
            "bar",
            "FOO",
            no_replace,
            Some(Errno::EEXIST),
            &["Foo", "bar"],
        ),
        (
            &["Foo"],
            "foo",
            "FOO",
            no_replace,
            Some(Errno::EEXIST),
            &["Foo"],
        ),
        (&["Foo"], "foo", "baz", no_replace, None, &["baz"]),
        (
            &["Foo", "bar"],
            "BAR",
            "FOO",
            exchange,
            None,
            &["Foo", "bar"],
        ),
        (
            &["Foo"],
            "foo",
            "bar",
            exchange,
            Some(Errno::ENOENT),
            &["Foo"],
        ),
    ] {
        let fs = layered(Box::new(Memory::new()), &[]);
        let root = fs.root();
        let nodes: Vec<_> = there.iter().map(|name| make(&*fs, root, name)).collect();
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let done = fs.rename(&caller(), (root, from), (root, to), flags);
        let row = format!("{there:?} {from:?} {to:?} {flags:?}");
        assert_eq!(errno(done), want, "{row}");
        let left: Vec<_> = left.iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(names(&*fs, root), left, "{row}");
        if want.is_none() && flags == none {
            let moved = there
                .iter()
                .position(|name| name.as_bytes().eq_ignore_ascii_case(from));
            assert_eq!(
                node(&*fs, root, to).unwrap(),
                nodes[moved.unwrap()],
                "{row}"
            );
        }
    }
}

/// What others have made below the layer.
#[test]
fn of_several_names_that_fold_alike_the_exact_one_is_found_else_the_smallest() {
    let below = Memory::new();
    for name in ["foo", "FOo", "fOO"] {
        make(&below, below.root(), name);
    }
    let ours = |name: &str| node(&below, below.root(), name.as_bytes()).unwrap();
    let all = ["foo", "FOo", "fOO"].map(ours);
    let fs = layered(Box::new(below), &[]);
    let root = fs.root();
    for (name, want) in [
        ("foo", all[0]),
        ("FOo", all[1]),
        ("fOO", all[2]),
        ("FOO", all[1]),
        ("Foo", all[1]),
    ] {
        assert_eq!(node(&*fs, root, name.as_bytes()).unwrap(), want, "{name}");
    }
    fs.unlink(&caller(), root, b"FOO").unwrap();
    assert_eq!(names(&*fs, root), [b"fOO", b"foo"]);
    assert_eq!(node(&*fs, root, b"FOO").unwrap(), all[2]);
}

#[test]
fn names_that_are_no_text_are_bytes_or_refused() {
    let loose = layered(Box::new(Memory::new()), &[]);
    let root = loose.root();
    // The same letters, with a byte that is no UTF-8.
    for name in [&b"caf\xe9"[..], b"CAF\xe9"] {
        let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
        loose.create(&caller(), root, name, flags, 0o644).unwrap();
    }
    assert_eq!(names(&*loose, root).len(), 2);
    assert_eq!(
        errno(loose.lookup(&caller(), root, b"Caf\xe9")),
        Some(Errno::ENOENT)
    );

    let strict = layered(Box::new(Memory::new()), &["strict"]);
    let root = strict.root();
    make(&*strict, root, "fine");
    let bad: &[u8] = b"caf\xe9";
    let flags = OpenFlags::READ_WRITE;
    let place = (root, bad);
    let fine = (root, &b"fine"[..]);
    for refused in [
        errno(strict.lookup(&caller(), root, bad)),
        errno(strict.create(&caller(), root, bad, flags, 0o644)),
        errno(strict.mkdir(&caller(), root, bad, 0o755)),
        errno(strict.symlink(&caller(), root, bad, b"x")),
        errno(strict.unlink(&caller(), root, bad)),
        errno(strict.rmdir(&caller(), root, bad)),
        errno(strict.rename(&caller(), fine, place, RenameFlags::default())),
        errno(strict.rename(&caller(), place, fine, RenameFlags::default())),
        errno(strict.walk(&caller(), root, bad)),
    ] {
        assert_eq!(refused, Some(Errno::EINVAL));
    }
}

#[test]
fn paths_are_walked_in_whatever_case() {
    let below = Memory::new();
    let tree = Tree::new()
        .directory("Alpha")
        .directory("Alpha/Beta")
        .file("Alpha/Beta/Gamma", "g")
        .symlink("Link", "alpha");
    fill(&below, &tree).unwrap();
    let fs = layered(Box::new(below), &[]);
    let root = fs.root();
    let deep = {
        let alpha = node(&*fs, root, b"Alpha").unwrap();
        let beta = node(&*fs, alpha, b"Beta").unwrap();
        node(&*fs, beta, b"Gamma").unwrap()
    };
    for path in ["Alpha/Beta/Gamma", "ALPHA/beta/GAMMA", "alpha/Beta/Gamma"] {
        let (mut at, mut rest) = (root, path.as_bytes());
        loop {
            let walked = fs.walk(&caller(), at, rest).unwrap();
            at = walked.entry.unwrap().attributes.node;
            if walked.consumed == rest.len() {
                break;
            }
            rest = &rest[walked.consumed + 1..];
        }
        assert_eq!(at, deep, "{path}");
    }
    for (path, want) in [
        ("ALPHA/Beta/Gamma/x", Errno::ENOTDIR),
        ("Alpha/none", Errno::ENOENT),
        ("none", Errno::ENOENT),
    ] {
        let (mut at, mut rest) = (root, path.as_bytes());
        let failed = loop {
            match fs.walk(&caller(), at, rest) {
                Err(error) => break error.errno(),
                Ok(walked) => {
                    at = walked.entry.unwrap().attributes.node;
                    rest = &rest[walked.consumed + 1..];
                }
            }
        };
        assert_eq!(failed, want, "{path}");
    }
}

/// Counts listings.
struct Counted(Memory, Arc<AtomicUsize>);

impl Layer for Counted {
    type Inner = Memory;
    fn inner(&self) -> &Memory {
        &self.0
    }
    fn called(&self, method: &'static str) {
        if method == "read_directory" {
            self.1.fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn directories_are_not_listed_for_names_that_are_there_nor_again_for_others() {
    let count = Arc::new(AtomicUsize::new(0));
    let below = Layered(Counted(Memory::new(), Arc::clone(&count)));
    for number in 0..100 {
        make(&below, below.root(), &format!("File{number}"));
    }
    let fs = layered(Box::new(below), &[]);
    let root = fs.root();
    for number in 0..100 {
        node(&*fs, root, format!("File{number}").as_bytes()).unwrap();
    }
    assert_eq!(count.load(Relaxed), 0);
    // A listing is believed for a tenth of a second: the machine may be slow, not a hundred times.
    for number in 0..100 {
        node(&*fs, root, format!("FILE{number}").as_bytes()).unwrap();
        let none = fs.lookup(&caller(), root, format!("none{number}").as_bytes());
        assert_eq!(errno(none), Some(Errno::ENOENT));
        make(&*fs, root, &format!("new{number}"));
    }
    assert!(count.load(Relaxed) < 100, "{count:?}");
}

#[test]
fn what_another_process_of_the_run_has_made_is_seen_at_once() {
    let run = Run::new();
    let mount = run.prepare(&["casefold"]);
    let (one, other) = (run.open(&mount), run.open(&mount));
    let root = one.root();
    for number in 0..50 {
        let (made, asked) = (format!("Name{number}"), format!("NAME{number}"));
        let asked = asked.as_bytes();
        assert_eq!(
            errno(one.lookup(&caller(), root, asked)),
            Some(Errno::ENOENT)
        );
        make(&*other, root, &made);
        assert!(node(&*one, root, asked).is_ok());
        other.unlink(&caller(), root, made.as_bytes()).unwrap();
        assert_eq!(
            errno(one.lookup(&caller(), root, asked)),
            Some(Errno::ENOENT)
        );
        // And under the case that is asked for now, not the one that was.
        let (flags, asked) = (OpenFlags::READ_WRITE, format!("nAmE{number}"));
        one.create(&caller(), root, asked.as_bytes(), flags, 0o644)
            .unwrap();
        assert!(names(&*other, root).contains(&asked.clone().into_bytes()));
        other.unlink(&caller(), root, made.as_bytes()).unwrap();
    }
    // What is made below the layer is seen by the directory's times.
    assert_eq!(
        errno(one.lookup(&caller(), root, b"BELOW")),
        Some(Errno::ENOENT)
    );
    std::fs::write(run.0.join("source/below"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(110));
    assert!(node(&*one, root, b"BELOW").is_ok());
}

const SOURCE: &str = "CULVERT_TEST_CASEFOLD";

/// Each process makes the same names, each in a case of its own, and removes what it has made.
#[test]
fn of_several_processes_that_make_one_name_one_does() {
    const NAMES: usize = 200;
    const PROCESSES: usize = 4;
    if let Some(place) = std::env::var_os(SOURCE) {
        let place = place.into_string().unwrap();
        let (number, directory) = place.split_once(':').unwrap();
        let number: usize = number.parse().unwrap();
        let run = Run::of(directory.into());
        let fs = run.open(&run.prepared());
        let mut won = 0;
        for name in 0..NAMES {
            let name = tools::cased(&format!("abcdefgh{name}"), number * 7 + name);
            let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
            match fs.create(&caller(), fs.root(), name.as_bytes(), flags, 0o644) {
                Ok(_) => won += 1,
                Err(error) => assert_eq!(error.errno(), Errno::EEXIST),
            }
        }
        std::fs::write(run.0.join(format!("won{number}")), won.to_string()).unwrap();
        return;
    }
    let run = Run::new();
    let mount = run.prepare(&["casefold"]);
    run.keep(&mount);
    let workers: Vec<_> = (0..PROCESSES)
        .map(|number| {
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "of_several_processes_that_make_one_name_one_does",
                ])
                .env(SOURCE, format!("{number}:{}", run.0.display()))
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    let won = (0..PROCESSES).map(|number| {
        let text = std::fs::read_to_string(run.0.join(format!("won{number}"))).unwrap();
        text.parse::<usize>().unwrap()
    });
    assert_eq!(won.sum::<usize>(), NAMES);
    let fs = run.open(&mount);
    assert_eq!(names(&*fs, fs.root()).len(), NAMES);
}

/// A caller who may search a directory but not list it.
#[test]
fn where_a_directory_cannot_be_listed_other_cases_are_an_error() {
    struct Unlisted(Memory);
    impl Layer for Unlisted {
        type Inner = Memory;
        fn inner(&self) -> &Memory {
            &self.0
        }
        fn read_directory(
            &self,
            _: &Caller<'_>,
            _: Node,
            _: u64,
            _: &mut culvert::DirectorySink<'_>,
        ) -> Result<()> {
            Err(Errno::EACCES.into())
        }
    }
    let below = Layered(Unlisted(Memory::new()));
    make(&below, below.root(), "There");
    let fs = layered(Box::new(below), &[]);
    assert!(node(&*fs, fs.root(), b"There").is_ok());
    assert_eq!(
        errno(fs.lookup(&caller(), fs.root(), b"there")),
        Some(Errno::EACCES)
    );
}
