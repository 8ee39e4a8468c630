//! Overlays beside the kernel's overlayfs and fuse-overlayfs: the start of a container, copies of a
//! large file, and calls on a tree that two layers have.

use crate::archives;
use crate::compare::Way;
use crate::figure::{Figure, Judged};
use crate::layers::{Mounted, WORK, rows, taken};
use crate::tools::{Place, in_turn, numbers, seconds, sh, succeeds};
use crate::writing::Worker;

const GROUP: &str = "overlay";
const OURS: &str = "`overlay`";
const KERNELS: &str = "the kernel's overlayfs";
const FUSE: &str = "fuse-overlayfs";

/// Rounds of each figure, and files of each round.
const ROUNDS: usize = 5;
const FILES: u32 = 1000;
/// Layers of the container, and files in each.
const LAYERS: u32 = 5;
const IN_EACH: u32 = 200;

/// All of it.
pub fn overlay(place: &Place) -> Vec<Figure> {
    let mut figures = start(place);
    figures.extend(copies(place));
    figures.extend(calls(place));
    figures.extend(archives::random(place));
    figures.extend(archives::spilled(place));
    figures
}

/// From the command to the end of 1,000 small reads, from archives as they are below memory; beside
/// those that take directories, into which the same archives were unpacked before.
fn start(place: &Place) -> Vec<Figure> {
    let base = place.path("container");
    sh(&format!(
        "mkdir -p {base}/mnt {base}/upper {base}/work && cd {base}
         for layer in $(seq {LAYERS}); do
             mkdir -p $layer/etc
             for file in $(seq {IN_EACH}); do
                 seq $file 300 > $layer/etc/$layer.$file
             done
             tar czf $layer.tar.gz -C $layer .
         done"
    ));
    let layers = |end: &str| {
        let all = (1..=LAYERS).map(|layer| format!("{base}/{layer}{end}"));
        all.collect::<Vec<_>>().join(":")
    };
    let (archives, directories) = (layers(".tar.gz"), layers(""));
    let read = format!("sh -c 'cat {base}/mnt/etc/* > /dev/null'");
    let ours = format!(
        "env XDG_CACHE_HOME={base}/cache {} run --no-private \
         --mount type=overlay,lowerdir={archives},upperdir=memory:,target={base}/mnt -- {read}",
        place.culvert
    );
    let layered = format!("lowerdir={directories},upperdir={base}/upper,workdir={base}/work");
    let kernels =
        format!("mount -t overlay -o {layered} overlay {base}/mnt && {read} && umount {base}/mnt");
    let fuse = format!("fuse-overlayfs -o {layered} {base}/mnt && {read} && umount {base}/mnt");
    let what = "start of a container, 1,000 reads over 5 layers";
    beside(
        what,
        &ours,
        &read_natively(&base),
        &[(KERNELS, kernels), (FUSE, fuse)],
    )
    .into_iter()
    .collect()
}

fn read_natively(base: &str) -> String {
    format!("sh -c 'cat {base}/*/etc/* > /dev/null'")
}

/// Opening a file of 1 GB (`COPY=` other megabytes) of a lower directory for writing, which copies
/// it, beside `cp --reflink=auto`.
fn copies(place: &Place) -> Option<Figure> {
    let base = place.path("copies");
    let size = std::env::var("COPY").unwrap_or_else(|_| "1024".to_owned());
    sh(&format!(
        "mkdir -p {base}/lower {base}/upper {base}/work {base}/mnt
         head -c {size}M /dev/urandom > {base}/lower/big"
    ));
    let layers = format!("lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work");
    let touch = format!("sh -c ': >> {base}/mnt/big'");
    let after = format!("&& rm {base}/upper/big");
    let ours = format!(
        "{} run --no-private --mount type=overlay,{layers},target={base}/mnt -- {touch} {after}",
        place.culvert
    );
    let mounted = |mount: &str| {
        format!("{mount} -o {layers} {base}/mnt && {touch} && umount {base}/mnt {after}")
    };
    let native = format!("cp --reflink=auto {base}/lower/big {base}/upper/big {after}");
    let others = [
        (KERNELS, mounted("mount -t overlay overlay")),
        (FUSE, mounted("fuse-overlayfs")),
    ];
    beside(
        &format!("copy of a file of {size} MB that is opened for writing"),
        &ours,
        &native,
        &others,
    )
}

/// Seconds of `ours` and of those of the `others` that work here, beside `native`.
fn beside(what: &str, ours: &str, native: &str, others: &[(&str, String)]) -> Option<Figure> {
    if !succeeds(ours) {
        eprintln!("not measured, does not work here: {ours}");
        return None;
    }
    let works: Vec<bool> = others.iter().map(|(_, other)| succeeds(other)).collect();
    let other = |at: usize| match works[at] {
        true => seconds(&others[at].1),
        false => f64::NAN,
    };
    let [of_native, of_ours, first, second] = in_turn(
        ROUNDS,
        [
            &|| seconds(native),
            &|| seconds(ours),
            &|| other(0),
            &|| other(1),
        ],
    );
    let figure = Figure::new(
        GROUP,
        what,
        Some(of_native * 1e3),
        of_ours * 1e3,
        "ms",
        Judged::Stated,
    );
    let times = [first, second].into_iter().zip(others).zip(works);
    let times = times.filter(|(_, works)| *works);
    let times = times.map(|((time, (name, _)), _)| ((*name).to_owned(), time * 1e3));
    Some(figure.beside(times.collect()))
}

/// Calls on files of an upper directory that has a lower one below it.
fn calls(place: &Place) -> Vec<Figure> {
    let worker = Worker::new(&place.path("overlays"), FILES);
    let base = &worker.directory;
    sh(&format!(
        "for d in lower upper work k-upper k-work f-upper f-work; do mkdir -p {base}/$d; done
         if [ $(id -u) = 0 ]; then chown -R 65534:65534 {base}; fi"
    ));
    let layers = |name: &str| {
        format!("lowerdir={base}/lower,upperdir={base}/{name}upper,workdir={base}/{name}work")
    };
    let ours = format!(
        "--no-private --mount type=overlay,{},target={base}/target",
        layers("")
    );
    let mounted = match numbers("id -u")[0] == 0.0 {
        true => [
            (
                KERNELS,
                "kernels",
                format!("mount -t overlay -o {} overlay", layers("k-")),
            ),
            (
                FUSE,
                "fuse",
                format!("fuse-overlayfs -o allow_other,{}", layers("f-")),
            ),
        ]
        .map(|(column, name, command)| Mounted::new(&worker, column, name, &command)),
        false => [None, None],
    };
    let mut ways = vec![worker.native("native"), worker.through(place, OURS, &ours)];
    ways.extend(mounted.iter().flatten().map(|mounted| mounted.way(&worker)));
    ways.retain(Way::works);
    let mut figures = Vec::new();
    rows(place, &ways, &WORK, |_, what, row| {
        figures.extend(row.figures(GROUP, what, "ns", |_| Judged::SpeedStated));
        if let (Some(ours), Some(theirs)) = (taken(row, OURS), taken(row, FUSE)) {
            let what = format!("{what}, beside fuse-overlayfs");
            let figure = Figure::new(GROUP, what, None, ours, "ns", Judged::Ahead);
            figures.push(figure.beside(vec![(FUSE.to_owned(), theirs)]));
        }
    });
    figures
}
