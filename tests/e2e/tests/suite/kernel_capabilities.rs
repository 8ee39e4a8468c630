//! Each ability of the kernel that a mount uses, by what it changes: with it, and without it
//! (`--without NAME`).

use crate::{
    kernel_mount::{Mounted, culvert, possible, shell},
    kernel_requests::requests,
};
use culvert_e2e::{Case, Driver, User};
use std::ops::RangeInclusive;

/// What is mounted.
#[derive(Clone, Copy)]
enum Source {
    /// An empty directory, after this was done in it.
    Fresh(&'static str),
    Memory,
    /// An archive of one file, `f`.
    Archive,
    /// Something that nobody has changed for a while.
    There(&'static str),
}
use Source::{Archive, Fresh, Memory, There};

const OLD: &str = "/usr/share/common-licenses";
const LARGE: &str = "/usr/lib/x86_64-linux-gnu";
const MEBIBYTE: &str = "head -c 1048576 /dev/zero > f";

/// How often the kernel asks for something while a program runs.
struct Count {
    name: &'static str,
    words: &'static [&'static str],
    source: Source,
    warm: &'static str,
    program: &'static str,
    asked: &'static str,
    with: RangeInclusive<usize>,
    without: RangeInclusive<usize>,
}

#[rustfmt::skip]
const COUNTS: &[Count] = &[
    Count { name: "max-pages", words: &["--without", "passthrough"], source: Fresh(MEBIBYTE), warm: "true",
        program: "dd if=/dev/zero of=f bs=1M count=1 \
            conv=notrunc", asked: "WRITE", with: 1..=1, without: 8..=8 },
    Count { name: "big-writes", words: &["--without", "passthrough"], source: Fresh(MEBIBYTE), warm: "true",
        program: "dd if=/dev/zero of=f bs=64k count=1 \
            conv=notrunc", asked: "WRITE", with: 1..=1, without: 16..=16 },
    Count { name: "killpriv-v2", words: &["-o", "valid=600"], source: Fresh(MEBIBYTE), warm: "true",
        program: "dd if=/dev/zero of=f bs=16 count=100 \
            conv=notrunc", asked: "GETXATTR", with: 0..=1, without: 100..=101 },
    Count { name: "passthrough", words: &[], source: Fresh(MEBIBYTE), warm: "true",
        program: "cat f", asked: "READ", with: 0..=0, without: 1..=99 },
    Count { name: "keep-cache", words: &["--without", "passthrough"], source: There(OLD), warm: "cat GPL-3; cat GPL-3",
        program: "cat GPL-3", asked: "READ", with: 0..=0, without: 1..=99 },
    Count { name: "cache-dir", words: &["-o", "valid=600"], source: There(OLD), warm: "ls; ls",
        program: "ls", asked: "READDIRPLUS", with: 0..=0, without: 1..=9 },
    Count { name: "cache-symlinks", words: &["-t", "memory"], source: Memory, warm: "ln -s x l; \
        readlink l",
        program: "readlink l", asked: "READLINK", with: 0..=0, without: 1..=1 },
    Count { name: "no-open", words: &[], source: Archive, warm: "cat f; cat f",
        program: "cat f", asked: "OPEN", with: 0..=0, without: 1..=1 },
    Count { name: "no-opendir", words: &["-t", "memory"], source: Memory, warm: "mkdir d; ls d; \
        ls d",
        program: "ls d", asked: "OPENDIR", with: 0..=0, without: 1..=1 },
    Count { name: "no-opendir", words: &["-o", "valid=3600"], source: Fresh("mkdir d; touch d/f"), warm: "ls d; ls d",
        program: "ls d", asked: "OPENDIR", with: 0..=0, without: 1..=1 },
    Count { name: "readdirplus", words: &["-o", "valid=600", "--without", "xattrs"], source: Fresh("seq 50 | xargs touch"), warm: "true",
        program: "ls -l", asked: "LOOKUP", with: 0..=0, without: 50..=50 },
    Count { name: "readdirplus-auto", words: &["-o", "valid=600", "--without", "cache-dir"], source: There(LARGE), warm: "true",
        program: "ls -U", asked: "READDIRPLUS", with: 1..=1, without: 2..=99 },
    Count { name: "xattrs", words: &[], source: Fresh("touch f"), warm: "getfattr -n user.a f 2>&1",
        program: "{ getfattr -n user.a f 2>&1; true; \
            }", asked: "GETXATTR", with: 1..=2, without: 0..=0 },
];

/// What a program says.
struct Result {
    name: &'static str,
    words: &'static [&'static str],
    source: Source,
    /// `$S` is the source, if it is a directory.
    program: &'static str,
    with: &'static str,
    without: &'static str,
}

const HANDLE: &str = script!("kernel_capabilities/handle.sh");
const SAME: &str = "cmp f $S/f && dd if=f bs=1M iflag=direct status=none | cmp - $S/f && echo same";
const MANY: &str = script!("kernel_capabilities/many.sh");

#[rustfmt::skip]
const RESULTS: &[Result] = &[
    Result { name: "posix-acl", words: &[], source: Fresh("echo content > f; chmod 640 f; setfacl \
        -m u:2:r f"),
        program: "setpriv --reuid=2 --regid=2 --clear-groups cat f 2>/dev/null || echo \
            denied", with: "content\n", without: "denied\n" },
    Result { name: "auto-inval-data", words: &["--without", "passthrough", "-o", "valid=0"], source: Fresh("echo old > f"),
        program: script!("kernel_capabilities/many-2.sh"),
        with: "old\nb'new\\n'\n", without: "old\nb'old\\n'\n" },
    Result { name: "create-supp-group", words: &["-t", "memory"], source: Memory,
        program: script!("kernel_capabilities/many-3.sh"),
        with: "2775\n", without: "775\n" },
    Result { name: "no-export", words: &[], source: Fresh("touch \
        f"), program: HANDLE, with: "95\n", without: "0\n" },
    // Set-user-ID and set-group-ID go with a write, a truncation and an ACL, whoever is told to
    // take them off.
    Result { name: "killpriv-v2", words: &[], source: Fresh("cp /bin/true f; cp f g; chmod 6777 f \
        g"),
        program: script!("kernel_capabilities/many-4.sh"), with: "777\n777\n", without: "777\n777\n" },
    Result { name: "setxattr-ext", words: &[], source: Fresh("touch f; chown 2:4 f; chmod 2755 f"),
        program: "setpriv --reuid=2 --regid=2 --clear-groups setfacl -m u:3:r f; stat -c %a \
            f", with: "755\n", without: "755\n" },
    // What several threads do at once shows in times only; that it is right, in results.
    Result { name: "async-read", words: &["--without", "passthrough"], source: Fresh("head -c \
        4194304 /dev/urandom > f"), program: SAME, with: "same\n", without: "same\n" },
    Result { name: "async-dio", words: &["--without", "passthrough"], source: Fresh("head -c \
        4194304 /dev/urandom > f"), program: SAME, with: "same\n", without: "same\n" },
    Result { name: "parallel-dirops", words: &[], source: Fresh("true"), program: MANY, with: "30\n", without: "30\n" },
    Result { name: "give-way", words: &[], source: Fresh("true"), program: MANY, with: "30\n", without: "30\n" },
    Result { name: "stay-awake", words: &[], source: Fresh("true"), program: MANY, with: "30\n", without: "30\n" },
];

/// A mount of `source`, without `name` or with everything.
fn mounted(test: &str, words: &[&str], source: Source, without: Option<&str>) -> Mounted {
    let place = Mounted::place(test);
    let directory = place.text("source");
    let path = match source {
        Fresh(setup) => {
            let done = shell(&format!("cd {directory} && {setup}"));
            assert_eq!(done.status, "exit 0", "{}", done.report());
            directory
        }
        Memory => "memory".to_owned(),
        Archive => {
            let archive = place.text("a.tar");
            let made = format!("cd {directory} && echo content > f && tar -cf {archive} f");
            let done = shell(&made);
            assert_eq!(done.status, "exit 0", "{}", done.report());
            archive
        }
        There(path) => path.to_owned(),
    };
    // Its end would unmount.
    std::mem::forget(place);
    let mut all = vec!["--allow-other"];
    all.extend(words);
    if let Some(name) = without {
        all.extend(["--without", name]);
    }
    Mounted::of(test, &all, &path)
}

#[test]
fn each_ability_by_the_requests_it_saves() {
    if !possible() {
        return;
    }
    for row in COUNTS {
        for (without, expected) in [(None, &row.with), (Some(row.name), &row.without)] {
            let test = format!("capability-{}-{}", row.name, without.is_some());
            let mount = mounted(&test, row.words, row.source, without);
            let target = mount.text("target");
            let inside = |script: &str| format!("(cd {target}; {script}) 2>/dev/null");
            let Some(found) = requests(&target, &inside(row.warm), &inside(row.program)) else {
                return;
            };
            let count = found.get(row.asked).copied().unwrap_or(0);
            assert!(
                expected.contains(&count),
                "{} {without:?}: {} of {}, expected {expected:?}: {found:?}",
                row.program,
                count,
                row.asked
            );
        }
    }
}

#[test]
fn each_ability_by_its_results() {
    if !possible() {
        return;
    }
    for row in RESULTS {
        for (without, expected) in [(None, row.with), (Some(row.name), row.without)] {
            let test = format!("ability-{}-{}", row.name, without.is_some());
            let mount = mounted(&test, row.words, row.source, without);
            let (source, target) = (mount.text("source"), mount.text("target"));
            let done = shell(&format!("export S={source}; cd {target}; {}", row.program));
            assert_eq!(
                done.text(),
                expected,
                "{} {without:?} {}",
                row.name,
                done.report()
            );
        }
    }
}

/// Every name that is tested is one that can be switched off, and each has its reason in the list.
#[test]
fn abilities_are_listed_with_their_reasons() {
    let listed = culvert(&["mount", "--without", "list"]);
    let text = listed.text();
    let names = COUNTS.iter().map(|row| row.name);
    for name in names.chain(RESULTS.iter().map(|row| row.name)) {
        let mut lines = text.lines().skip_while(|line| line.trim() != name);
        assert!(lines.next().is_some(), "{name} is not listed");
        let reason = lines.next().unwrap_or_default();
        assert!(reason.starts_with("      "), "{name} has no reason");
    }
}

/// Holes, allocation, copies within the kernel, unnamed files, times of creation: as natively, on
/// each kind of mount.
#[test]
fn operations_are_as_natively() {
    if !possible() {
        return;
    }
    for user in [User::Me, User::Nobody] {
        for (driver, words) in [
            (Driver::Passthrough, &[][..]),
            (Driver::Passthrough, &["--without", "passthrough"]),
            (Driver::Driven, &[]),
            (Driver::Memory, &[]),
        ] {
            let case = Case::new(&format!("operations-{}-{user:?}", driver.name()), user)
                .directory(driver);
            let path = case.program("operations.py");
            let script =
                format!("umask 022; cd $M && rm -f f g named sparse copied && exec python3 {path}");
            let argv = ["bash", "-c", &script];
            let native = case.natively(&argv);
            assert_eq!(native.status, "exit 0", "{}", native.report());
            let ours = case.through_kernel(words, &argv);
            assert_eq!(ours.text(), native.text(), "{words:?} {}", ours.report());
        }
    }
}
