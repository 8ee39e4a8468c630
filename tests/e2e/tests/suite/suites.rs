//! Other people's test suites: pjdfstest and fsx.

use culvert_e2e::{Case, Driver, User, suite, world};
use std::collections::BTreeMap;
use std::time::Duration;

/// pjdfstest changes to two users without rights; Debian has these two. Features that Linux file
/// systems need not have are named. The nap must be longer than a tick of the kernel's clock for
/// times of files.
pub const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.015
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Tests whose result is not the native one, by driver, and why; `::KIND`: all on files of a kind.
const DIFFERENT: &[(&[Driver], &str, &str)] = &[
    (
        &[
            Driver::Memory,
            Driver::Spilled,
            Driver::Layered,
            Driver::Overlay,
            Driver::Image,
            Driver::Archives,
        ],
        "rmdir::ebusy",
        "mounts a file system of the kernel on a directory of the mount, which the kernel cannot: \
        it knows no such directory",
    ),
    (
        &[
            Driver::Driven,
            Driver::NoDescriptor,
            Driver::Layered,
            Driver::Bind,
            Driver::Shown,
            Driver::Overlay,
        ],
        "link::link_count_max",
        "asks the C library for LINK_MAX, which guesses it from the device",
    ),
    (
        &[Driver::Overlay, Driver::Image, Driver::Archives],
        "::char",
        "makes devices 0/0, which are whiteouts: the kernel's overlayfs refuses them, too",
    ),
    (
        &[
            Driver::Memory,
            Driver::Spilled,
            Driver::Image,
            Driver::Archives,
        ],
        "link::link_count_max",
        "not known to the C library, as on tmpfs: see \
        memory_has_no_other_limit_of_links_than_tmpfs",
    ),
];

/// Result of each test, and what was said below it.
pub fn results(text: &str) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(name), Some(result @ ("ok" | "skipped" | "FAILED")), None) => {
                last = name.to_owned();
                found.insert(last.clone(), (result.to_owned(), String::new()));
            }
            _ => {
                if let Some((_, said)) = found.get_mut(&last) {
                    said.push_str(line);
                    said.push('\n');
                }
            }
        }
    }
    found
}

/// The directory of the mount in which tests work: one that both archives have.
fn below(driver: Driver) -> &'static str {
    match driver {
        Driver::Archives => "/d",
        _ => "",
    }
}

/// Every test of pjdfstest has the same result in a directory of the kernel and through `driver`,
/// but those of [`DIFFERENT`]. The second file system, for EXDEV, is the working directory.
fn pjdfstest(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    // A short name: the suite binds sockets by their whole paths, which sockaddr_un limits.
    let name = format!("pj-{}-{}", &driver.name()[..2], &format!("{user:?}")[..1]);
    let case = Case::new(&name, user)
        .directory(driver)
        .limit(Duration::from_secs(180));
    let (program, below) = (suite("pjdfstest"), below(driver));
    let script = format!(
        "printf %s '{PJDFSTEST}' > conf && mkdir -p $M{below} && exec {} -c conf -s $W -p $M{below}",
        program.display()
    );
    let native = case.natively(&["bash", "-c", &script]);
    let ours = case.through_culvert(&["bash", "-c", &script]);
    let (expected, met) = (results(&native.text()), results(&ours.text()));
    assert!(
        expected.len() > 380,
        "the suite does not run natively\n{}",
        native.report()
    );
    let mut report = String::new();
    for (name, (result, said)) in &expected {
        // What fails natively tests nothing.
        if result == "FAILED" {
            report += &format!("{name}: natively {said}");
        }
        let got = met.get(name);
        let explained = DIFFERENT.iter().any(|(drivers, test, _)| {
            let is_it = match test.starts_with("::") {
                true => name.ends_with(test),
                false => test == name,
            };
            drivers.contains(&driver) && is_it
        });
        if !explained && got.map(|(result, _)| result) != Some(result) {
            report += &format!("{name}: natively {result}, here {got:?}\n{said}");
        }
    }
    assert!(report.is_empty(), "{report}\n{}", ours.report());
    assert!(ours.status.starts_with("exit "), "{}", ours.report());
    // What cannot be tested is known: file systems mounted anew as read-only, and what only root
    // may do.
    let skipped = expected.values().filter(|(result, _)| result == "skipped");
    if user == User::Me && world().is_root() {
        assert_eq!(skipped.count(), 13, "{}", native.report());
    }
}

macro_rules! pjdfstest {
    ($($name:ident $driver:ident $user:ident;)*) => {
        mod pjdfstest { $(
            #[test]
            fn $name() { super::pjdfstest(super::Driver::$driver, super::User::$user); }
        )* }
    };
}

pjdfstest! {
    passthrough_as_self Passthrough Me;
    passthrough_as_nobody Passthrough Nobody;
    bound_as_self Bound Me;
    driven_as_self Driven Me;
    driven_as_nobody Driven Nobody;
    memory_as_self Memory Me;
    memory_as_nobody Memory Nobody;
    spilled_as_self Spilled Me;
    no_descriptor_as_self NoDescriptor Me;
    no_descriptor_as_nobody NoDescriptor Nobody;
    layered_as_self Layered Me;
    layered_as_nobody Layered Nobody;
    bind_as_self Bind Me;
    bind_as_nobody Bind Nobody;
    shown_as_self Shown Me;
    shown_as_nobody Shown Nobody;
    overlay_as_self Overlay Me;
    overlay_as_nobody Overlay Nobody;
    image_as_self Image Me;
    image_as_nobody Image Nobody;
    archives_as_self Archives Me;
    archives_as_nobody Archives Nobody;
}

/// What the C library says of the number of links, and pjdfstest makes of it, is the same on tmpfs
/// natively.
#[test]
fn memory_has_no_other_limit_of_links_than_tmpfs() {
    let case = Case::new("pjdfstest-links", User::Me).directory(Driver::Memory);
    let program = suite("pjdfstest");
    let script = script!(
        "suites/memory_has_no_other_limit_of_links_than_tmpfs.sh",
        pjdfstest = PJDFSTEST,
        program = program.display()
    );
    let ours = case.through_culvert(&["bash", "-c", &script]);
    let place = format!("/dev/shm/culvert-links-{}", std::process::id());
    std::fs::create_dir(&place).expect("/dev/shm is there and the name is ours");
    let native = case.natively(&["bash", "-c", &script, "bash", &place]);
    std::fs::remove_dir_all(&place).expect("what was made above");
    assert_eq!(native.text(), ours.text(), "{}", ours.report());
}

/// All operations but mappings (on archives those, too), each of a byte at least: posix_fallocate
/// of nothing is EINVAL, which fsx takes for a failure. fsx checks every byte that it reads, and
/// the size after each operation.
pub const FSX: &str = "
flen = 262144
nomsyncafterwrite = true
[opsize]
max = 65536
min = 1
[weights]
close_open = 2
read = 10
write = 10
mapread = 0
mapwrite = 0
invalidate = 0
truncate = 8
fsync = 0.02
fdatasync = 0.02
posix_fallocate = 3
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
";

/// `operations` of fsx with each seed, all at the same time, each on a file of its own, in small
/// and in large pieces.
fn fsx(driver: Driver, user: User, operations: u32, seeds: &str) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let case = Case::new(&format!("fsx-{}-{user:?}", driver.name()), user)
        .directory(driver)
        .limit(Duration::from_secs(180));
    let fsx = suite("fsx");
    // PLFS has no fallocate(2).
    let operations_of = match driver {
        Driver::Plfs => FSX
            .replace("_fallocate = 3", "_fallocate = 0")
            .replace("hole = 3", "hole = 0"),
        Driver::Archives => FSX
            .replace("mapread = 0", "mapread = 15")
            .replace("mapwrite = 0", "mapwrite = 15")
            .replace("invalidate = 0", "invalidate = 2"),
        _ => FSX.to_owned(),
    };
    let script = script!(
        "suites/fsx.sh",
        fsx = operations_of,
        fsx_2 = fsx.display(),
        operations,
        seeds,
        below = below(driver)
    );
    let done = case.good(&script);
    assert!(done.text().contains("A-OK"), "{}", done.report());
}

macro_rules! fsx {
    ($($name:ident $driver:ident $user:ident $operations:literal $seeds:literal;)*) => {
        mod fsx { $(
            #[test]
            fn $name() { super::fsx(super::Driver::$driver, super::User::$user, $operations, $seeds); }
        )* }
    };
}

fsx! {
    passthrough Passthrough Me 10_000 "1 2";
    bound Bound Me 5_000 "3";
    driven Driven Me 12_500 "4 5";
    driven_as_nobody Driven Nobody 5_000 "6";
    memory Memory Me 12_500 "7 8";
    memory_as_nobody Memory Nobody 5_000 "9";
    plfs Plfs Me 5_000 "10";
    plfs_as_nobody Plfs Nobody 2_000 "11";
    overlay Overlay Me 5_000 "12";
    image Image Me 5_000 "13";
    image_as_nobody Image Nobody 2_000 "14";
    spilled Spilled Me 5_000 "15 16";
    archives Archives Me 3_000 "17 18";
    archives_as_nobody Archives Nobody 2_000 "17";
}
