//! Drivers in libraries, beside what DEFUSE's paper compares with: a library for LD_PRELOAD and one
//! that a program is linked to, each with a table of descriptors of its own. Its figures 1, 2 and 7
//! are the three workloads, figure 8 the context switches.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, median, sh};
use crate::writing::Worker;

const GROUP: &str = "libraries";
const C: &str = "C driver";
/// The same, which does not say that it is a tree of the kernel's.
const CALLS: &str = "C driver, calls";
const RUST: &str = "Rust driver";
const HOST: &str = "C driver, host";
const PRELOAD: &str = "LD_PRELOAD";
const LINKED: &str = "linked to";
const AGAIN: &str = "native again";

/// Rounds of each figure, and files of each round.
const ROUNDS: usize = 11;
const FILES: u32 = 4096;

/// Workloads, what they are, and what is done to them.
const WORK: [(&str, &str); 3] = [
    ("small", "4,096 files of 128 bytes"),
    ("steps", "2,048 files of 63 bytes to 126 KiB"),
    ("big", "one file of 128 MB"),
];

/// All of it.
pub fn libraries(place: &Place) -> Vec<Figure> {
    let worker = Worker::new(&place.path("libraries"), FILES);
    let files = place.program("files");
    let ways = ways(place, &worker);
    let mut figures = Vec::new();
    for (workload, of) in WORK {
        for row in compare(&ways, &files, workload, "", ROUNDS) {
            let what = format!("{of}: {}", row.name);
            if row.name == "switches" {
                figures.extend(row.figures(GROUP, &what, "", |_| Judged::Stated));
                continue;
            }
            figures.extend(row.figures(GROUP, &what, "ns", |column| match column {
                C => Judged::Speed(0.9),
                _ => Judged::SpeedStated,
            }));
            figures.extend(against_rust(&what, &row));
        }
    }
    figures
}

/// The C driver in the process against the same in Rust, by paths as well.
fn against_rust(what: &str, row: &Row) -> Option<Figure> {
    let taken = |wanted| {
        let found = row.others.iter().find(|(column, _)| *column == wanted);
        found.map(|(_, values)| median(values.clone()))
    };
    let (ours, rust) = (taken(CALLS)?, taken(RUST)?);
    let what = format!("{what}, time against Rust");
    let figure = Figure::new(GROUP, what, Some(rust), ours, "ns", Judged::Ratio(1.1));
    Some(figure.column(CALLS))
}

fn ways(place: &Place, worker: &Worker) -> Vec<Way> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let (base, programs) = (&worker.directory, format!("{root}/bench/programs"));
    let (direct, preload, linked) = (
        place.path("direct.so"),
        place.path("preload.so"),
        place.path("files-linked"),
    );
    sh(&format!(
        "cc -O2 -shared -fPIC -I {root}/crates/culvert-library/include -o {direct} \
        {root}/examples/c/direct.c
         cc -O2 -shared -fPIC -o {preload} {programs}/baselines/preload.c -ldl
         cc -O2 -include {programs}/baselines/direct_fuse.h -o {linked} {programs}/files.c \\
            {programs}/baselines/direct_fuse.c -pthread
         chmod 755 {direct} {preload} {linked}"
    ));
    let library = |more: &str| {
        format!(
            "--no-private --mount type={direct},source={base}/source,target={base}/target{more}"
        )
    };
    let paths = format!("--no-private -v {base}/source:{base}/target:paths");
    let through = [
        worker.through(place, C, &library("")),
        worker.through(place, CALLS, &library(",calls")),
        worker.through(place, RUST, &paths),
        worker.through(place, HOST, &library(",place=host")),
    ];
    let mut ways = vec![worker.native("native")];
    ways.extend(through.into_iter().filter(Way::works));
    // These know no more than what the workloads call.
    let baseline = |column, words: String| Way {
        column,
        before: format!(
            "{} BASELINE_TARGET={base}/target BASELINE_SOURCE={base}/source {words}",
            worker.before
        ),
        directory: format!("{base}/target"),
    };
    ways.push(baseline(PRELOAD, format!("LD_PRELOAD={preload}")));
    let instead = format!("sh -c 'shift; exec {linked} \"$@\"' sh");
    ways.push(baseline(LINKED, instead));
    ways.push(worker.native(AGAIN));
    ways
}
