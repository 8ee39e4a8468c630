//! Reading and writing: a directory passed through against the directory itself, memory against
//! tmpfs.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::fixture;
use crate::tools::{Place, disk, numbers, runtime, sh, succeeds};

/// Columns of the tables.
const DEFAULT: &str = "default";
const BACKING: &str = "`links=backing`";
const DRIVEN: &str = "`driven`";
const BOUND: &str = "bound (`--private`)";
const AGAIN: &str = "native again";
const MEMORY: &str = "`memory`";

/// Whoever measures: an ordinary user, so that nothing is bound by the right of root.
pub struct Worker {
    /// Words that make a command his.
    pub before: String,
    /// His directory.
    pub directory: String,
}

impl Worker {
    /// One in `directory`, whose programs use at most so many `files`.
    pub fn new(directory: &str, files: u32) -> Self {
        let home = format!("{directory}/home");
        sh(&format!(
            "for d in source target native home; do mkdir -p {directory}/$d; done"
        ));
        let clock = std::env::var("FILES_CLOCK").unwrap_or_default();
        let mut before = format!(
            "env HOME={home} XDG_CACHE_HOME={home} FILES_CLOCK={clock} FILES_COUNT={files}"
        );
        if numbers("id -u")[0] == 0.0 {
            // As a login makes one, in whose place nobody else can put another: /run/user/UID.
            let runtime = runtime();
            sh(&format!(
                "mkdir -p -m 700 {runtime} && chown -R 65534:65534 {directory} {runtime}"
            ));
            before = format!(
                "setpriv --reuid=65534 --regid=65534 --clear-groups -- {before} \
                XDG_RUNTIME_DIR={runtime}"
            );
        }
        Self {
            before,
            directory: directory.to_owned(),
        }
    }

    /// Without Culvert.
    pub fn native(&self, column: &'static str) -> Way {
        Way {
            column,
            before: self.before.clone(),
            directory: format!("{}/native", self.directory),
        }
    }

    /// Through `culvert run` with `arguments` that mount something at the target.
    pub fn through(&self, place: &Place, column: &'static str, arguments: &str) -> Way {
        Way {
            column,
            before: format!("{} {} run {arguments} --", self.before, place.culvert),
            directory: format!("{}/target", self.directory),
        }
    }

    /// The native way and those of `columns` to the source; what does not work here is left out.
    fn passthrough(&self, place: &Place, columns: &[&'static str]) -> Vec<Way> {
        let volume = format!("-v {0}/source:{0}/target", self.directory);
        let mut ways = vec![self.native("native")];
        for &column in columns {
            let arguments = match column {
                AGAIN => {
                    ways.push(self.native(AGAIN));
                    continue;
                }
                BOUND => format!("--private {volume}"),
                BACKING => format!("--no-private {volume}:links=backing"),
                DRIVEN => format!("--no-private {volume}:driven"),
                _ => format!("--no-private {volume}"),
            };
            let way = self.through(place, column, &arguments);
            if way.works() {
                ways.push(way);
            }
        }
        ways
    }

    fn memory(&self, place: &Place) -> Vec<Way> {
        let mount = format!(
            "--no-private --mount type=memory,target={}/target",
            self.directory
        );
        let ours = self.through(place, MEMORY, &mount);
        let mut ways = vec![self.native("tmpfs"), self.native(AGAIN)];
        if ours.works() {
            ways.insert(1, ours);
        }
        ways
    }
}

/// A directory that is not in memory.
pub fn disk_directory(place: &Place) -> Option<String> {
    let name = place.directory.file_name()?.to_str()?;
    disk().map(|parent| format!("{parent}/{name}"))
}

/// What asks for `least` of the native speed in the default way, and for `fast` of it with
/// `links=backing`.
fn at_least(least: f64, fast: f64) -> impl Fn(&str) -> Judged {
    move |column| match column {
        DEFAULT => Judged::Speed(least),
        BACKING => Judged::Speed(fast),
        _ => Judged::SpeedStated,
    }
}

/// The voluntary context switches: no more than natively.
fn switches(group: &'static str, what: &str, row: &Row) -> Vec<Figure> {
    let most = row.native.iter().copied().fold(0.0, f64::max);
    row.figures(group, what, "", |column| match column {
        DEFAULT | BACKING => Judged::Figure(most),
        _ => Judged::Stated,
    })
}

/// `passthrough` against the directory itself, in memory.
pub fn passthrough(place: &Place) -> Vec<Figure> {
    const GROUP: &str =
        "passthrough in memory: 4,096 files of 128 bytes, 2,048 of 63 × i bytes, calls on 10,000";
    let worker = Worker::new(&place.path("worker"), 10_000);
    let mut ways = worker.passthrough(place, &[DEFAULT, BACKING, BOUND, DRIVEN, AGAIN]);
    let mut figures = contents(place, &ways, GROUP, 7);
    for (form, how, least) in FORMS {
        figures.extend(calls(place, &ways, GROUP, form, how, least, 7));
        // Every component costs a driver call there: one form tells it all.
        if form == "path" {
            ways.retain(|way| way.column != DRIVEN);
        }
    }
    figures
}

/// The same on a disk, with fewer files: creating one can take a millisecond there.
pub fn on_disk(place: &Place) -> Vec<Figure> {
    const GROUP: &str = "passthrough on disk, 1,000 files";
    let Some(disk) = disk_directory(place) else {
        return Vec::new();
    };
    let worker = Worker::new(&disk, 1_000);
    let ways = worker.passthrough(place, &[DEFAULT, BACKING, AGAIN]);
    let mut figures = contents(place, &ways, GROUP, 9);
    for (form, how, least) in FORMS {
        figures.extend(calls(place, &ways, GROUP, form, how, least, 7));
    }
    sh(&format!("rm -rf {disk}"));
    figures
}

/// Ways to name a file: for `files`, for people, and the part of the native speed that the default
/// must have.
const FORMS: [(&str, &str, f64); 5] = [
    ("path", "by path", 0.4),
    ("deep", "by path, eight directories deep", 0.4),
    ("link", "by path through a symbolic link", 0.4),
    ("cwd", "in the working directory", 0.4),
    ("dirfd", "by directory descriptor", 0.9),
];

/// Files written and read.
fn contents(place: &Place, ways: &[Way], group: &'static str, rounds: usize) -> Vec<Figure> {
    let files = place.program("files");
    let mut figures = Vec::new();
    for (workload, what) in [
        ("small", "files of 128 bytes"),
        ("steps", "files of 63 × i bytes"),
        ("big", "a file of 128 MB, for each megabyte"),
    ] {
        for row in compare(ways, &files, workload, "", rounds) {
            figures.extend(match row.name.as_str() {
                "write" => row.figures(
                    group,
                    &format!("create and write {what}"),
                    "ns",
                    at_least(0.9, 0.9),
                ),
                "read" => row.figures(group, &format!("read {what}"), "ns", at_least(0.9, 0.9)),
                _ => switches(
                    group,
                    &format!("voluntary context switches of both, {what}"),
                    &row,
                ),
            });
        }
    }
    figures
}

/// Calls on many files.
fn calls(
    place: &Place,
    ways: &[Way],
    group: &'static str,
    form: &str,
    how: &str,
    least: f64,
    rounds: usize,
) -> Vec<Figure> {
    let files = place.program("files");
    let mut figures = Vec::new();
    for row in compare(ways, &files, "calls", form, rounds) {
        let what = format!("`{}` {how}", row.name);
        figures.extend(match row.name.as_str() {
            "switches" => Vec::new(),
            "create" | "open" => row.figures(group, &what, "ns", |_| Judged::SpeedStated),
            _ => row.figures(group, &what, "ns", at_least(least, 0.9)),
        });
    }
    figures
}

/// `memory` against tmpfs.
pub fn memory(place: &Place) -> Vec<Figure> {
    const GROUP: &str = "memory";
    let worker = Worker::new(&place.path("worker"), 10_000);
    let files = place.program("files");
    let ways = worker.memory(place);
    let mut figures = Vec::new();
    let asked = |least: Option<f64>| {
        move |column: &str| match (column, least) {
            (MEMORY, Some(least)) => Judged::Speed(least),
            _ => Judged::SpeedStated,
        }
    };
    let table = [
        (
            "small",
            "",
            "write",
            "4,096 files of 128 bytes created and written, each",
            Some(1.5),
        ),
        ("small", "", "read", "the same read", Some(2.0)),
        (
            "calls",
            "path",
            "stat",
            "`stat` of 10,000 by path",
            Some(3.0),
        ),
        (
            "calls",
            "path",
            "chmod",
            "`chmod` of 10,000 by path",
            Some(3.0),
        ),
        (
            "calls",
            "path",
            "access",
            "`access` of 10,000 by path",
            None,
        ),
        (
            "calls",
            "path",
            "open",
            "`open` and `close` of 10,000 by path",
            None,
        ),
        (
            "calls",
            "path",
            "rename",
            "`rename` of 10,000 by path",
            None,
        ),
        (
            "calls",
            "path",
            "unlink",
            "`unlink` of 10,000 by path",
            None,
        ),
        (
            "blocks",
            "",
            "random-read",
            "4 KiB read at a random place of 32 MB",
            Some(2.0),
        ),
        (
            "blocks",
            "",
            "rewrite",
            "4 KiB written over what is there",
            Some(2.0),
        ),
        (
            "big",
            "",
            "write",
            "one fresh file of 128 MB written, a megabyte",
            Some(1.0),
        ),
        ("big", "", "read", "the same file read, a megabyte", None),
        (
            "two",
            "",
            "one",
            "one process writes and reads a file of its own, in all",
            None,
        ),
        ("two", "", "two", "two processes do, each its own", None),
        (
            "shared",
            "",
            "shared-write",
            "4 KiB written on a descriptor shared with a child",
            Some(0.3),
        ),
        ("shared", "", "shared-read", "4 KiB read on it", None),
        (
            "shared",
            "",
            "append",
            "64 bytes appended, two processes on one descriptor, each",
            None,
        ),
    ];
    let mut done: Vec<(&str, Vec<Row>)> = Vec::new();
    for (workload, form, name, what, least) in table {
        if done.last().is_none_or(|(last, _)| *last != workload) {
            done.push((workload, compare(&ways, &files, workload, form, 11)));
        }
        let rows = done.last().map(|(_, rows)| rows).into_iter().flatten();
        for row in rows.filter(|row| row.name == name) {
            figures.extend(row.figures(GROUP, what, "ns", asked(least)));
        }
    }
    let two = done.iter().find(|(workload, _)| *workload == "two");
    figures.extend(two.map_or(Vec::new(), |(_, rows)| beside(rows)));
    figures
}

/// Two processes, each with a file of its own, against one alone in the same way: 1 where neither
/// holds the other up.
fn beside(rows: &[Row]) -> Vec<Figure> {
    const GROUP: &str = "two processes, each with a file of its own, against one alone";
    let named = |name: &str| rows.iter().find(|row| row.name == name);
    let (Some(one), Some(two)) = (named("one"), named("two")) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    let alone = std::iter::once(&one.native).chain(one.others.iter().map(|(_, values)| values));
    let tmpfs = ("tmpfs itself", two.native.clone());
    for ((column, values), alone) in std::iter::once(&tmpfs).chain(&two.others).zip(alone) {
        let part = Row {
            name: String::new(),
            native: alone.clone(),
            others: vec![(column, values.clone())],
        };
        figures.extend(
            part.figures(
                GROUP,
                "16 MB written and read four times",
                "ns",
                |column| match column {
                    MEMORY => Judged::Speed(1.0),
                    _ => Judged::SpeedStated,
                },
            ),
        );
    }
    figures
}

/// Programs that do much besides: unpacking, git, a compiler.
pub fn programs(place: &Place) -> Vec<Figure> {
    const GROUP: &str = "programs";
    let worker = Worker::new(&place.path("worker"), 10_000);
    let archive = fixture::project(place);
    let mut ways = worker.passthrough(place, &[DEFAULT, BACKING, AGAIN]);
    ways.extend(
        worker
            .memory(place)
            .into_iter()
            .filter(|way| way.column == MEMORY),
    );
    let mut figures = Vec::new();
    for (what, prepare, work, needs) in [
        (
            "`tar -x` of 1,000 files",
            ":",
            format!("tar -xf {archive}"),
            "tar",
        ),
        (
            "`git add` and `git status` of them",
            "TAR; git init -q .",
            "git add . && git status >/dev/null".to_owned(),
            "git",
        ),
        (
            "`make` of 50 files with `cc`",
            "TAR",
            "make -s".to_owned(),
            "make",
        ),
        (
            "`find`, `grep -r`, `rm -r` of them",
            "TAR",
            "find . -type f | wc -l >/dev/null; grep -rl f_7_ . >/dev/null; rm -r d*".to_owned(),
            "grep",
        ),
    ] {
        if !succeeds(&format!("command -v {needs}")) {
            continue;
        }
        let unpack = format!("tar -xf {archive} && cd project");
        let prepare = prepare.replace("TAR", &unpack);
        let script = place.path("script.sh");
        std::fs::write(
            &script,
            format!(
                "set -e\ncd \"$1\"\nmkdir work\ncd work\n{prepare}\nb=$(date \
                +%s%N)\n{work}\ne=$(date +%s%N)\ncd \"$1\"\nrm -rf work\necho time $((e - b))\n"
            ),
        )
        .expect("the directory is ours");
        for row in compare(&ways, "sh", &script, "", 5) {
            figures.extend(row.figures(GROUP, what, "ns", |_| Judged::SpeedStated));
        }
    }
    figures
}
