//! What is measured, group by group.

use crate::figure::{Figure, Judged};
use crate::fixture;
use crate::publish;
use crate::tools::{Place, in_turn, median, numbers, pair, seconds, sh, succeeds};
use crate::{
    bindings, hosts, layers, libraries, linux, mapping, mount, overlay, plfs, starts, writing,
};
use std::path::Path;

/// A group of figures.
type Group = fn(&Place) -> Vec<Figure>;

/// All groups, in the order of the table.
pub const GROUPS: [(&str, Group); 20] = [
    ("calls", calls),
    ("launch", launch),
    ("inherit", inherit),
    ("index", index),
    ("grep", grep),
    ("random", random),
    ("passthrough", writing::passthrough),
    ("disk", writing::on_disk),
    ("memory", writing::memory),
    ("programs", writing::programs),
    ("mapping", mapping::mapping),
    ("mount", mount::mount),
    ("hosts", hosts::hosts),
    ("bindings", bindings::bindings),
    ("layers", layers::layers),
    ("libraries", libraries::libraries),
    ("overlay", overlay::overlay),
    ("plfs", plfs::plfs),
    ("starts", starts::starts),
    ("linux", linux::linux),
];

/// Measured only when they are named: they take minutes each.
const BY_NAME: [&str; 8] = [
    "hosts",
    "bindings",
    "layers",
    "libraries",
    "overlay",
    "plfs",
    "starts",
    "linux",
];

/// Measures the groups named, or all but those of [`BY_NAME`].
pub fn everything(only: &[&str]) -> Vec<Figure> {
    let place = Place::new();
    let mut figures = Vec::new();
    for (name, group) in GROUPS {
        if only.contains(&name) || only.is_empty() && !BY_NAME.contains(&name) {
            eprintln!("measuring {name}");
            let found = group(&place);
            print!("{}", publish::tables(&found));
            figures.extend(found);
        }
    }
    figures
}

/// Nanoseconds of single calls: foreign ones, which only pass, and driven ones, which never reach
/// the kernel.
fn calls(place: &Place) -> Vec<Figure> {
    fixture::real_tree(place);
    let calls = place.program("calls");
    let (archive, rounds) = (place.path("tree.tar"), 15);
    let outside = place.path("outside");
    sh(&format!("head -c 100000 {archive} > {outside}"));
    let member = sh(&format!(
        "cd {} && find . -type f -size +8k | head -n 1",
        place.path("tree")
    ));
    let member = member.trim().trim_start_matches("./");
    let (inside, unpacked) = (
        format!("{}/{member}", place.path("mnt")),
        format!("{}/{member}", place.path("tree")),
    );
    let table = [
        (
            "`lseek` on a foreign descriptor",
            "lseek",
            false,
            Judged::Added(10.0),
        ),
        (
            "`pread` of 1 byte on a foreign descriptor",
            "pread",
            false,
            Judged::Added(10.0),
        ),
        (
            "`fstat` on a foreign descriptor",
            "fstat",
            false,
            Judged::Added(10.0),
        ),
        (
            "`access` on a foreign path",
            "access",
            false,
            Judged::Added(60.0),
        ),
        (
            "`stat` on a foreign path",
            "stat",
            false,
            Judged::Added(60.0),
        ),
        (
            "`lseek` on a driven private descriptor",
            "lseek",
            true,
            Judged::Figure(25.0),
        ),
        ("`pread` of 1 byte, driven", "pread", true, Judged::Stated),
        ("`pread` of 4 KiB, driven", "pread4k", true, Judged::Stated),
        ("`fstat`, driven", "fstat", true, Judged::Stated),
        ("`stat`, driven", "stat", true, Judged::Stated),
        ("`open` and `close`, driven", "open", true, Judged::Stated),
    ];
    let measure = |(what, operation, driven, judged): (&str, &str, bool, Judged)| {
        let (native, ours) = if driven {
            (&unpacked, &inside)
        } else {
            (&outside, &outside)
        };
        let natively = format!("{calls} {operation} {native}");
        let through = place.through(&archive, &format!("{calls} {operation} {ours}"));
        let (native, culvert) = pair(rounds, &|| numbers(&natively)[0], &|| numbers(&through)[0]);
        Figure::new("calls", what, Some(native), culvert, "ns", judged)
    };
    table.into_iter().map(measure).collect()
}

/// What starting programs costs: the command itself, and every exec below it.
fn launch(place: &Place) -> Vec<Figure> {
    fixture::real_tree(place);
    let spawn = place.program("spawn");
    let archive = place.path("tree.tar");
    let under = place.through(&archive, "/bin/true");
    sh(&under);
    // Natively and through culvert, in microseconds, with a remark about processor time.
    let both = |program: &str, count: usize| {
        let times = numbers(&format!(
            "{spawn} {count} {program} --- {}",
            place.through(&archive, program)
        ));
        let note = format!(
            "processor time {:.0} µs natively, {:.0} through culvert",
            times[1],
            times[1] + times[5]
        );
        (times[0], times[0] + times[4], note)
    };
    let (native, ours, note) = both("/bin/true", 500);
    let what = "`/bin/true` under `culvert run`, warm";
    let mut figures = vec![
        Figure::new(
            "launch",
            what,
            Some(native),
            ours,
            "µs",
            Judged::Added(1000.0),
        )
        .note(note),
    ];

    let natively = format!("{spawn} 100 /bin/true");
    let through = place.through(&archive, &natively);
    let (exec_native, exec_ours) = pair(5, &|| numbers(&natively)[0], &|| numbers(&through)[0]);
    let (spent_native, spent_ours) = pair(5, &|| numbers(&natively)[1], &|| numbers(&through)[1]);
    let note =
        format!("processor time {spent_native:.0} µs natively, {spent_ours:.0} through culvert");
    let what = "`/bin/true` from a program already under culvert";
    figures.push(
        Figure::new(
            "launch",
            what,
            Some(exec_native),
            exec_ours,
            "µs",
            Judged::Stated,
        )
        .note(note),
    );

    let (program, libraries) = many_libraries(place);
    let (many_native, many_ours, _) = both(&program, 200);
    let (true_added, many_added) = (ours - native, many_ours - many_native);
    let each = (many_added - true_added) / libraries as f64;
    let note = format!(
        "{libraries} libraries beyond libc: {many_native:.0} µs natively, {many_ours:.0} through \
        culvert"
    );
    figures.push(
        Figure::new(
            "launch",
            "each further library of a program",
            None,
            each,
            "µs",
            Judged::Figure(50.0),
        )
        .note(note),
    );
    if succeeds("test -x /usr/bin/python3") {
        let (native, ours, _) = both("/usr/bin/python3 -I -c pass", 30);
        figures.push(Figure::new(
            "launch",
            "`python3 -c pass` under `culvert run`",
            Some(native),
            ours,
            "µs",
            Judged::Stated,
        ));
    }
    figures
}

/// A program linked with real libraries of this machine, and how many it has beyond those of
/// `/bin/true`.
fn many_libraries(place: &Place) -> (String, usize) {
    let output = place.path("many-libraries");
    let names = "m resolv crypto ssl z stdc++ gcc_s expat sqlite3 lzma zstd bz2 pcre2-8 selinux \
        acl attr cap uuid blkid mount ffi tinfo readline gmp";
    let script = format!(
        "cd {0} && echo 'int main(void) {{ return 0; }}' > many.c
         libraries=; for n in {names}; do l=$(ls /lib/x86_64-linux-gnu/lib$n.so.* \
         /usr/lib/x86_64-linux-gnu/lib$n.so.* 2>/dev/null | head -n 1); libraries=\"$libraries \
         $l\"; done
         cc -o {output} many.c -Wl,--no-as-needed $libraries
         echo $(( $(ldd {output} | grep -c '=> /') - $(ldd /bin/true | grep -c '=> /') ))",
        place.path("")
    );
    let count = numbers(&script)[0];
    (output, count as usize)
}

/// Starting a program that inherits N driven descriptors.
fn inherit(place: &Place) -> Vec<Figure> {
    fixture::real_tree(place);
    let inherit = place.program("inherit");
    let archive = place.path("tree.tar");
    let member = sh(&format!(
        "cd {} && find . -type f -size +8k | head -n 1",
        place.path("tree")
    ));
    let member = member.trim().trim_start_matches("./").to_owned();
    let limit = numbers("ulimit -H -n")[0];
    let counts: Vec<u32> = [1, 100, 500, 1000, 2000, 4000]
        .into_iter()
        .filter(|count| f64::from(*count) + 200.0 < limit)
        .collect();
    // Each beside a start without descriptors, so that only the difference counts.
    let list: String = counts.iter().map(|count| format!(" 0 {count}")).collect();
    let natively = format!("{inherit} {}/{member} 30 {list}", place.path("tree"));
    let through = place.through(
        &archive,
        &format!("{inherit} {}/{member} 30 {list}", place.path("mnt")),
    );
    let (mut added, mut first) = (
        vec![Vec::new(); counts.len()],
        vec![Vec::new(); counts.len()],
    );
    for _ in 0..15 {
        let (native, ours) = (numbers(&natively), numbers(&through));
        for (row, (native, ours)) in native.chunks(6).zip(ours.chunks(6)).enumerate() {
            added[row].push((ours[5] - ours[2]) - (native[5] - native[2]));
            first[row].push(ours[4] - ours[5]);
        }
    }
    let added: Vec<f64> = added.into_iter().map(median).collect();
    let promotion: Vec<f64> = first.into_iter().map(median).collect();
    let points: Vec<(f64, f64)> = counts
        .iter()
        .zip(&added)
        .map(|(count, added)| (f64::from(*count), *added))
        .collect();
    let (fixed, each) = line(&points);
    let all = points
        .iter()
        .map(|(count, added)| format!("{count}: {added:.0}"))
        .collect::<Vec<_>>()
        .join(", ");
    let last = counts.len() - 1;
    vec![
        Figure::new(
            "inherit",
            "exec with N inherited driven descriptors, for each",
            None,
            each * 1000.0,
            "ns",
            Judged::Figure(4.0),
        )
        .note(format!("processor time; µs added by N: {all}")),
        Figure::new(
            "inherit",
            "exec with N inherited driven descriptors, beside that",
            None,
            fixed,
            "µs",
            Judged::Figure(3.7),
        ),
        Figure::new(
            "inherit",
            "first start after opening, for each descriptor (promotion)",
            None,
            promotion[last] / f64::from(counts[last]) * 1000.0,
            "ns",
            Judged::Stated,
        ),
    ]
}

/// The line through points: what it starts with, and what it rises by.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(values).sum::<f64>() / count;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let over: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - y))
        .sum();
    let rise = over
        / points
            .iter()
            .map(|point| (point.0 - x).powi(2))
            .sum::<f64>();
    (y - rise * x, rise)
}

/// The command of ratarmount, if it is there and FUSE works.
fn ratarmount() -> Option<String> {
    let command = std::env::var("RATARMOUNT").unwrap_or_else(|_| "ratarmount".to_owned());
    (succeeds(&format!("{command} --help"))
        && succeeds("test -w /dev/fuse")
        && succeeds("command -v fusermount || command -v fusermount3"))
    .then_some(command)
}

/// Undoes a FUSE mount and waits until its server has let go.
fn unmount(target: &str) {
    sh(&format!(
        "fusermount3 -u {target} 2>/dev/null || fusermount -u {target} || umount {target}"
    ));
}

/// Making an index the first time.
fn index(place: &Place) -> Vec<Figure> {
    fixture::real_tree(place);
    let mut figures = Vec::new();
    for (kind, list) in [("tar", "tar tf"), ("tar.gz", "tar tzf")] {
        let archive = place.path(&format!("tree.{kind}"));
        let cache = place.path("fresh-cache");
        let through = format!(
            "XDG_CACHE_HOME={cache} {}",
            place.through(&archive, "/bin/true")
        );
        let listing = format!("{list} {archive}");
        let fuse = place.path("fuse");
        let other = ratarmount();
        let cold = || {
            sh(&format!("rm -rf {cache} && mkdir {cache}"));
            seconds(&through) * 1e3
        };
        let beside = || {
            let Some(command) = &other else {
                return f64::NAN;
            };
            sh(&format!(
                "mkdir -p {fuse} && rm -f {}",
                place.path("ratarmount.index")
            ));
            let taken = seconds(&format!(
                "{command} --index-file {} {archive} {fuse}",
                place.path("ratarmount.index")
            )) * 1e3;
            unmount(&fuse);
            taken
        };
        let [native, ours] = in_turn(
            if kind == "tar" { 7 } else { 5 },
            [&|| seconds(&listing) * 1e3, &cold],
        );
        let others = if other.is_some() {
            vec![("ratarmount".to_owned(), in_turn(2, [&beside])[0])]
        } else {
            Vec::new()
        };
        let size = numbers(&format!("stat -c %s {archive}"))[0] / 1e6;
        let members = numbers(&format!("{list} {archive} | wc -l"))[0];
        let what = format!("first index of a {kind} against `{list}`");
        figures.push(
            Figure::new("index", what, Some(native), ours, "ms", Judged::Ratio(1.2))
                .beside(others)
                .note(format!("{size:.0} MB, {members:.0} members")),
        );
    }
    figures
}

/// `grep -r` over everything, warm.
fn grep(place: &Place) -> Vec<Figure> {
    fixture::real_tree(place);
    let search = |directory: &str| format!("grep -rc 'unsigned int' {directory}");
    let natively = search(&place.path("tree"));
    ["tar", "zip"]
        .into_iter()
        .map(|kind| {
            let through = place.through(
                &place.path(&format!("tree.{kind}")),
                &search(&place.path("mnt")),
            );
            // Once before, for the index.
            seconds(&through);
            let [native, ours] = in_turn(
                7,
                [&|| seconds(&natively) * 1e3, &|| seconds(&through) * 1e3],
            );
            let files = numbers(&format!("find {} -type f | wc -l", place.path("tree")))[0];
            Figure::new(
                "grep",
                format!("`grep -r` through a {kind}, warm"),
                Some(native),
                ours,
                "ms",
                Judged::Ratio(2.0),
            )
            .note(format!("{files:.0} files"))
        })
        .collect()
}

/// Random reads in a big compressed member, once it is indexed.
fn random(place: &Place) -> Vec<Figure> {
    let reader = place.program("random");
    let archive = fixture::gigabyte();
    let (inside, fuse) = (format!("{}/member", place.path("mnt")), place.path("fuse"));
    sh(&format!("mkdir -p {fuse}"));
    let cache = place.path("cache");
    sh(&format!("mkdir -p {cache}"));
    let run = |command: &str| {
        format!(
            "XDG_CACHE_HOME={cache} {}",
            place.through(&archive, command)
        )
    };
    let first = seconds(&run("/bin/true"));
    let through = run(&format!("{reader} {inside} 1000 20"));
    let mut beside = Vec::new();
    let runs: Vec<Vec<f64>> = (0..3).map(|_| numbers(&through)).collect();
    let (ours, mean) = (
        median(runs.iter().map(|run| run[0]).collect()),
        median(runs.iter().map(|run| run[1]).collect()),
    );
    if let Some(command) = ratarmount() {
        let index = Path::new(&archive).with_file_name("ratarmount.index");
        let _ = std::fs::remove_file(&index);
        let mount = format!(
            "{command} --index-file {} {archive} {fuse}",
            index.display()
        );
        let made = seconds(&mount);
        let found = numbers(&format!("{reader} {fuse}/member 1000 30"));
        unmount(&fuse);
        beside.push(("ratarmount".to_owned(), found[0]));
        eprintln!(
            "ratarmount: index {made:.1} s, mean {:.0} µs of {}",
            found[1], found[2]
        );
    }
    if succeeds("command -v archivemount") && succeeds("test -w /dev/fuse") {
        sh(&format!("archivemount -o readonly {archive} {fuse}"));
        let found = numbers(&format!("{reader} {fuse}/member 20 40"));
        unmount(&fuse);
        beside.push(("archivemount".to_owned(), found[0]));
        eprintln!("archivemount: mean {:.0} µs of {}", found[1], found[2]);
    }
    let note = format!("mean {mean:.0} µs; the first index took {first:.1} s");
    vec![
        Figure::new(
            "random",
            "random 4 KiB read of a member of a 1 GB tar.gz",
            None,
            ours,
            "µs",
            Judged::Ahead,
        )
        .beside(beside)
        .note(note),
    ]
}
