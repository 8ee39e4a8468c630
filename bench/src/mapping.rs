//! Mapped files: `memory` against tmpfs, driven files against the directory itself and against a
//! FUSE mount of it.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, median, numbers, sh, succeeds};
use crate::writing::Worker;

/// Columns of the tables.
const MEMORY: &str = "`memory`";
const DRIVEN: &str = "`driven`";
const FILLED: &str = "`descriptor=no`, user: filled before";
const ON_DEMAND: &str = "`descriptor=no`, root: filled on demand";
const FUSE: &str = "bindfs";
const AGAIN: &str = "native again";

/// A FUSE mount of the worker's source, as long as it lives.
struct Fuse {
    target: String,
}

impl Fuse {
    /// None where bindfs is not installed or may not mount.
    fn new(worker: &Worker) -> Option<Self> {
        let target = format!("{}/fuse", worker.directory);
        let mounted = succeeds(&format!(
            "mkdir -p {target} && bindfs -o allow_other {}/source {target}",
            worker.directory
        ));
        if !mounted {
            eprintln!("not measured, does not work here: bindfs");
        }
        mounted.then_some(Self { target })
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let target = &self.target;
        if !succeeds(&format!("fusermount3 -u {target} || umount {target}")) {
            eprintln!("still mounted: {target}");
        }
    }
}

/// All ways that work here, the native one first.
fn ways(place: &Place, worker: &Worker, fuse: Option<&Fuse>) -> Vec<Way> {
    let directory = &worker.directory;
    let volume = format!("--no-private -v {directory}/source:{directory}/target:driven");
    let mut ways = vec![
        worker.native("native"),
        worker.through(
            place,
            MEMORY,
            &format!("--no-private --mount type=memory,target={directory}/target"),
        ),
        worker.through(place, DRIVEN, &volume),
        worker.through(place, FILLED, &format!("{volume},descriptor=no")),
    ];
    if numbers("id -u")[0] == 0.0 {
        ways.push(Way {
            column: ON_DEMAND,
            before: format!("{} run {volume},descriptor=no --", place.culvert),
            directory: format!("{directory}/target"),
        });
    }
    if let Some(fuse) = fuse {
        ways.push(Way {
            column: FUSE,
            before: worker.before.clone(),
            directory: fuse.target.clone(),
        });
    }
    ways.push(worker.native(AGAIN));
    ways.retain(Way::works);
    ways
}

/// The part of the native speed that the FUSE mount has in `row`; 0 without one.
fn speed_of_fuse(row: &Row) -> f64 {
    let found = row.others.iter().find(|(column, _)| *column == FUSE);
    found.map_or(0.0, |(_, values)| {
        median(row.native.clone()) / median(values.clone())
    })
}

/// Everything about mappings.
pub fn mapping(place: &Place) -> Vec<Figure> {
    const GROUP: &str = "mapped files";
    let worker = Worker::new(&place.path("worker"), 10_000);
    let program = place.program("mapping");
    let fuse = Fuse::new(&worker);
    let ways = ways(place, &worker, fuse.as_ref());
    let mut figures = Vec::new();

    for row in compare(&ways, &program, "bytes", "", 3) {
        // No digit more than is shown, so that what is as fast as the FUSE mount is not missed by a
        // hair.
        let fuse = (speed_of_fuse(&row) * 100.0).floor() / 100.0;
        let (what, unit) = match row.name.as_str() {
            "read" => (
                "128 MB mapped and 1.25 million bytes read at random places, each (cold; target \
                of driven files: bindfs)",
                "ns",
            ),
            "read-again" => ("the same once more (warm)", "ns"),
            "write" => ("1.25 million bytes written at random places, each", "ns"),
            _ => ("`msync` of them, a megabyte", "ns"),
        };
        figures.extend(row.figures(GROUP, what, unit, |column| {
            match (row.name.as_str(), column) {
                ("msync", _) | (_, AGAIN | FUSE) => Judged::SpeedStated,
                ("read", DRIVEN | FILLED | ON_DEMAND) if fuse > 0.0 => Judged::Speed(fuse),
                ("read", DRIVEN | FILLED | ON_DEMAND) => Judged::SpeedStated,
                _ => Judged::Speed(1.0),
            }
        }));
    }
    for row in compare(&ways, &program, "forks", "", 3) {
        figures.extend(row.figures(
            GROUP,
            "`fork` of a process with 1 GB mapped and filled",
            "ns",
            |column| match column {
                AGAIN | FUSE => Judged::SpeedStated,
                _ => Judged::Speed(0.83),
            },
        ));
    }
    figures.extend(scans(&compare(&ways, &program, "scan", "", 3)));
    figures.extend(foreign(place, &worker, &program));
    drop(fuse);
    figures
}

/// A gigabyte from end to end: mapped beside read(2) of the same file in the same way.
fn scans(rows: &[Row]) -> Vec<Figure> {
    const GROUP: &str = "a mapped file of 1 GB looked through, against `read` of it";
    let named = |name: &str| rows.iter().find(|row| row.name == name);
    let (Some(read), Some(cold), Some(warm)) = (
        named("scan-by-read"),
        named("scan-cold"),
        named("scan-warm"),
    ) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for (row, what) in [(warm, "warm"), (cold, "cold, mapping included")] {
        let native = ("tmpfs itself", row.native.clone());
        let reads = std::iter::once(&read.native).chain(read.others.iter().map(|(_, reads)| reads));
        for ((column, values), reads) in std::iter::once(&native).chain(&row.others).zip(reads) {
            let part = Row {
                name: String::new(),
                native: reads.clone(),
                others: vec![(column, values.clone())],
            };
            figures.extend(
                part.figures(GROUP, what, "ns", |column| match (what, column) {
                    ("warm", MEMORY | DRIVEN | FILLED | ON_DEMAND) => Judged::Speed(0.8),
                    _ => Judged::SpeedStated,
                }),
            );
        }
    }
    figures
}

/// A program that maps nothing of ours.
fn foreign(place: &Place, worker: &Worker, program: &str) -> Vec<Figure> {
    const GROUP: &str = "a program that maps nothing of a mount";
    let volume = format!("--no-private -v {0}/source:{0}/target", worker.directory);
    let mut ways = vec![
        worker.native("native"),
        worker.through(place, "default", &volume),
        worker.through(place, DRIVEN, &format!("{volume}:driven")),
        worker.native(AGAIN),
    ];
    ways.retain(Way::works);
    let mut figures = Vec::new();
    for row in compare(&ways, program, "foreign", "", 5) {
        let what = match row.name.as_str() {
            "anonymous" => "anonymous memory mapped and unmapped",
            _ => "a file outside mapped and unmapped",
        };
        figures.extend(row.figures(GROUP, what, "ns", |_| Judged::SpeedStated));
    }
    let script = place.path("start.sh");
    sh(&format!(
        "printf 'b=$(date +%%s%%N); for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; e=$(date \
        +%%s%%N); echo start $(((e - b) / 10))\\n' > {script}"
    ));
    for row in compare(&ways, "sh", &script, "", 5) {
        figures.extend(
            row.figures(GROUP, "`/bin/true` started by a shell", "ns", |_| {
                Judged::SpeedStated
            }),
        );
    }
    figures
}
