//! Layers and unions: in the bypass against plain passthrough and the directory itself, and as
//! kernel mounts beside bindfs, loggedfs and mergerfs.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, median, numbers, sh, succeeds};
use crate::writing::Worker;

const BYPASS: &str = "layers in the bypass, by the speed of plain passthrough";
const UNION: &str = "union of three branches in the bypass";
const MOUNTS: &str = "layers as kernel mounts";
/// Columns of the tables.
const PLAIN_AGAIN: &str = "passthrough again";
const IDLE: &str = "idle `log`";
const NAMES: &str = "`log`, `log.data=no`";
const ALL: &str = "`log`";
const BIND: &str = "`bind`";
const OWNERS: &str = "`bind`, `force-user`";
const SILENT: &str = "`fault` that strikes nothing";
const OURS: &str = "`union`";
const MERGERFS: &str = "mergerfs";
const AGAIN: &str = "native again";

/// Rounds of each figure, and files of each round: with all that is beside, less than ten minutes.
const ROUNDS: usize = 3;
const FILES: u32 = 2_000;

/// Workloads of `programs/files.c`, their form, and what a line of each is called.
pub type Line = (&'static str, &'static str);
pub const WORK: [(&str, &str, &[Line]); 4] = [
    (
        "small",
        "",
        &[
            ("write", "create and write files of 128 bytes"),
            ("read", "read files of 128 bytes"),
        ],
    ),
    (
        "steps",
        "",
        &[
            ("write", "create and write files of 63 × i bytes"),
            ("read", "read files of 63 × i bytes"),
        ],
    ),
    (
        "big",
        "",
        &[
            ("write", "write a file of 128 MB, for each megabyte"),
            ("read", "read a file of 128 MB, for each megabyte"),
        ],
    ),
    (
        "calls",
        "path",
        &[
            ("create", "`create` by path"),
            ("stat", "`stat` by path"),
            ("chmod", "`chmod` by path"),
            ("access", "`access` by path"),
            ("open", "`open` by path"),
            ("rename", "`rename` by path"),
            ("unlink", "`unlink` by path"),
        ],
    ),
];

/// One call each, on an open file.
const BLOCKS: [(&str, &str, &[Line]); 1] = [(
    "blocks",
    "",
    &[
        ("random-read", "read of 4 KiB at a random place"),
        ("rewrite", "write of 4 KiB in the place of others"),
    ],
)];

/// How many operations `log` tells of in each.
const RECORDS: [(&str, u32); 9] = [
    ("stat", 1),
    ("access", 2),
    ("chmod", 2),
    ("create", 4),
    ("open", 4),
    ("rename", 3),
    ("unlink", 2),
    ("random-read", 1),
    ("rewrite", 1),
];

/// Workloads, their forms, and what they print.
pub type Work = [(&'static str, &'static str, &'static [Line])];

/// All of it.
pub fn layers(place: &Place) -> Vec<Figure> {
    let worker = Worker::new(&place.path("layers"), FILES);
    let at = |name: &str| format!("{}/{name}", worker.directory);
    let idle = at("idle.xml");
    sh(&format!(
        "echo '<loggedFS logEnabled=\"false\"/>' > {idle} && chmod 644 {idle}
         for d in one two three logs; do mkdir -p {0}/$d; done
         if [ $(id -u) = 0 ]; then chown -R 65534:65534 {0}; fi",
        worker.directory
    ));
    let mut figures = bypass(place, &worker, &idle);
    figures.extend(union(place, &worker));
    figures.extend(mounts(place, &worker));
    figures
}

/// All rows of this `work`.
pub fn rows(place: &Place, ways: &[Way], work: &Work, mut each: impl FnMut(&str, &str, &Row)) {
    let files = place.program("files");
    for &(workload, form, names) in work {
        for row in compare(ways, &files, workload, form, ROUNDS) {
            if let Some((_, what)) = names.iter().find(|(name, _)| *name == row.name) {
                each(workload, what, &row);
            }
        }
    }
}

/// `bind` and `log` against plain passthrough.
fn bypass(place: &Place, worker: &Worker, idle: &str) -> Vec<Figure> {
    let through = |column, more: &str| {
        let base = &worker.directory;
        let volume = format!("--no-private -v {base}/source:{base}/target{more}");
        worker.through(place, column, &volume)
    };
    let log = format!("layer=log,log.file={}/logs/bypass", worker.directory);
    let mut ways = vec![
        through("passthrough", ""),
        through(BIND, ":layer=bind"),
        through(OWNERS, ":layer=bind,bind.force-user=65534"),
        through(IDLE, &format!(":{log},log.config={idle}")),
        through(NAMES, &format!(":{log},log.data=no")),
        through(ALL, &format!(":{log}")),
        through(SILENT, ":layer=fault,fault.rule=statfs+errno=EIO"),
        worker.native("native"),
        through(PLAIN_AGAIN, ""),
    ];
    ways.retain(Way::works);
    let mut figures = Vec::new();
    rows(
        place,
        &ways,
        &[&WORK[..], &BLOCKS].concat(),
        |_, what, row| {
            figures.extend(row.figures(BYPASS, what, "ns", |column| match column {
                BIND | IDLE => Judged::Speed(0.9),
                _ => Judged::SpeedStated,
            }));
            // What the record of an operation costs its caller.
            figures.extend(recorded(what, row));
        },
    );
    figures
}

/// What `log` adds to each operation that it tells of, beside a layer that is called as it is.
fn recorded(what: &str, row: &Row) -> Option<Figure> {
    let records = RECORDS.iter().find(|(name, _)| *name == row.name)?.1;
    let (with, without) = (taken(row, ALL)?, taken(row, SILENT)?);
    let one = (with - without) / f64::from(records);
    let of = match records {
        1 => String::new(),
        records => format!(", each of {records} operations"),
    };
    let figure = Figure::new(
        BYPASS,
        format!("{what}: `log` beside a layer that tells nothing{of}"),
        Some(without),
        without + one,
        "ns",
        Judged::Added(1000.0),
    );
    Some(figure.column(ALL))
}

/// A union of three branches against the directory itself and mergerfs.
fn union(place: &Place, worker: &Worker) -> Vec<Figure> {
    let base = &worker.directory;
    let branches = format!("{base}/one=RW:{base}/two=RW:{base}/three=RO");
    let ours = format!(
        "--no-private --mount type=union,source={branches},target={base}/target,category.create=ff"
    );
    let merged = Mounted::new(
        worker,
        MERGERFS,
        "merged",
        &format!("mergerfs -o allow_other,category.create=ff {branches}"),
    );
    let mut ways = vec![worker.native("native"), worker.through(place, OURS, &ours)];
    ways.extend(merged.as_ref().map(|merged| merged.way(worker)));
    ways.push(worker.native(AGAIN));
    ways.retain(Way::works);
    let mut figures = Vec::new();
    rows(place, &ways, &WORK, |workload, what, row| {
        let least = match workload {
            "big" => 0.95,
            "calls" => 0.5,
            _ => 0.7,
        };
        figures.extend(row.figures(UNION, what, "ns", |column| match column {
            OURS => Judged::Speed(least),
            _ => Judged::SpeedStated,
        }));
        figures.extend(times(row, what, 5.0));
    });
    figures
}

/// How many times faster than mergerfs: the part of its time that ours takes.
fn times(row: &Row, what: &str, least: f64) -> Option<Figure> {
    let (ours, theirs) = (taken(row, OURS)?, taken(row, MERGERFS)?);
    let figure = Figure::new(
        UNION,
        format!("{what}, by mergerfs"),
        Some(theirs),
        ours,
        "ns",
        Judged::Speed(least),
    );
    Some(figure.column(OURS))
}

/// A mount, as long as it lives.
pub struct Mounted {
    column: &'static str,
    target: String,
}

impl Mounted {
    /// What `command` mounts at a new directory, which it ends with.
    pub fn new(worker: &Worker, column: &'static str, name: &str, command: &str) -> Option<Self> {
        let target = format!("{}/{name}", worker.directory);
        let made = succeeds(&format!("mkdir -p {target} && chown 65534:65534 {target}"));
        let mounted = made && succeeds(&format!("{command} {target}"));
        if !mounted {
            eprintln!("not measured, does not work here: {command}");
        }
        mounted.then(|| Self { column, target })
    }

    /// Work on it, as `worker`.
    pub fn way(&self, worker: &Worker) -> Way {
        Way {
            column: self.column,
            before: worker.before.clone(),
            directory: self.target.clone(),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !succeeds(&format!("umount {}", self.target)) {
            eprintln!("still mounted: {}", self.target);
        }
    }
}

/// Each as a kernel mount, beside the original.
fn mounts(place: &Place, worker: &Worker) -> Vec<Figure> {
    if numbers("id -u")[0] != 0.0 {
        eprintln!("not measured: mounts that others use need root");
        return Vec::new();
    }
    let (base, culvert) = (&worker.directory, &place.culvert);
    let branches = format!("{base}/one=RW:{base}/two=RW:{base}/three=RO");
    // Ours, and the original, with the same said to both.
    let pairs = [
        (
            BIND,
            format!("{culvert} mount --allow-other -o layer=bind {base}/source"),
            "bindfs",
            format!("bindfs -o allow_other {base}/source"),
        ),
        (
            ALL,
            format!(
                "{culvert} mount --allow-other \
                 -o layer=log,log.format=loggedfs,log.file={base}/logs/ours {base}/source"
            ),
            "loggedfs",
            format!("loggedfs -p -l {base}/logs/theirs"),
        ),
        (
            OURS,
            format!("{culvert} mount --allow-other -t union -o category.create=ff {branches}"),
            MERGERFS,
            format!("mergerfs -o allow_other,category.create=ff {branches}"),
        ),
    ];
    let mut figures = Vec::new();
    for (number, (column, ours, other, theirs)) in pairs.iter().enumerate() {
        let mounted = [
            Mounted::new(worker, column, &format!("ours-{number}"), ours),
            Mounted::new(worker, other, &format!("theirs-{number}"), theirs),
        ];
        let mut ways = vec![worker.native("native")];
        ways.extend(mounted.iter().flatten().map(|mounted| mounted.way(worker)));
        ways.retain(Way::works);
        rows(place, &ways, &WORK, |_, what, row| {
            figures.extend(beside(row, what, column, other));
        });
    }
    figures
}

/// Our time beside the original's.
fn beside(row: &Row, what: &str, ours: &'static str, theirs: &str) -> Option<Figure> {
    let (of_ours, of_theirs) = (taken(row, ours)?, taken(row, theirs)?);
    let native = median(row.native.clone());
    let what = format!("{ours}: {what}");
    let figure = Figure::new(MOUNTS, what, Some(native), of_ours, "ns", Judged::Ahead);
    Some(figure.beside(vec![(theirs.to_owned(), of_theirs)]))
}

/// The median of a column.
pub fn taken(row: &Row, wanted: &str) -> Option<f64> {
    let found = row.others.iter().find(|(column, _)| *column == wanted)?;
    Some(median(found.1.clone()))
}
