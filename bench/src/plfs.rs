//! Many processes write one file, as Fs_test does: with the synchronisation service, without it,
//! and by the kernel mount of the same driver.

use crate::figure::{Figure, Judged};
use crate::tools::{Place, in_turn, numbers, sh, succeeds};
use culvert_sync::{files::Files, memory::Memory};
use culvert_sync_wire::{APPENDS, Answer, FileId, HOLDER, memory::Taken};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc::channel};
use std::time::Instant;

const MOUNT: &str = "plfs with the service, by the speed of its kernel mount";
const BYPASS: &str = "plfs with the service, by the speed of the bypass without";
const LATENCY: &str = "plfs with the service: latencies";
const INDEX: &str = "plfs: an index of 10 million records";
/// Bytes of the file: a quarter of Fs_test's smaller one, and in memory, so that all of it takes
/// less than eight minutes.
const TOTAL: u64 = 64 << 20;
const PROCESSES: u32 = 4;
const ROUNDS: usize = 3;
const POSITIONS: u32 = 500_000;

/// A service, ended when dropped.
struct Service(Child);

impl Service {
    fn new(place: &Place) -> Self {
        let socket = place.path("plfs-sync");
        let mut command = Command::new(&place.culvert);
        command.args(["sync", "--socket", &socket]);
        let child = command.stderr(Stdio::null()).spawn();
        let service = Self(child.expect("the service starts"));
        sh(&format!("until test -S {socket}; do sleep 0.01; done"));
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The back end behind the kernel, as long as this lives.
struct Mounted(String);

impl Mounted {
    fn new(place: &Place) -> Option<Self> {
        let (culvert, target) = (&place.culvert, place.path("plfs-mounted"));
        let command = format!(
            "mkdir -p {target} && {culvert} mount -t plfs {} {target}",
            place.path("plfs-back")
        );
        succeeds(&command).then_some(Self(target))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        sh(&format!("umount {0} || fusermount3 -u {0}", self.0));
    }
}

/// All of it.
pub fn plfs(place: &Place) -> Vec<Figure> {
    let (back, target) = (place.path("plfs-back"), place.path("plfs-target"));
    sh(&format!("mkdir -p {back} {target}"));
    let (_service, program) = (Service::new(place), place.program("plfs"));
    let with = format!(",sync={}", place.path("plfs-sync"));
    let run = |options: &str, work: &str| {
        let culvert = &place.culvert;
        format!(
            "{culvert} run --mount 'type=plfs,source={back},target={target}{options}' -- \
            {program} {work}"
        )
    };
    let work = |directory: &str, processes: u32, size: u64, how: &str| {
        let total = TOTAL / u64::from(PROCESSES) * u64::from(processes.min(PROCESSES));
        format!("write {directory} {processes} {size} {total} {how}")
    };
    let mounted = Mounted::new(place);
    let mut figures = Vec::new();
    for (size, name) in [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")] {
        for how in ["strided", "segmented", "append"] {
            let work = |directory: &str| work(directory, PROCESSES, size, how);
            let (service, alone) = (run(&with, &work(&target)), run("", &work(&target)));
            // Seconds for each GB, of writing and of reading.
            let of = |command: &str, at: usize| 1000.0 / numbers(command)[at];
            let [without, ours] = in_turn(ROUNDS, [&|| of(&alone, 0), &|| of(&service, 0)]);
            let what = format!("write {name}, {how}, {PROCESSES} processes");
            figures.push(row(BYPASS, &what, without, ours, 0.97));
            if how == "strided" {
                let [without, ours] = in_turn(ROUNDS, [&|| of(&alone, 1), &|| of(&service, 1)]);
                let what = format!("read {name}, {how}, {PROCESSES} processes");
                figures.push(row(BYPASS, &what, without, ours, 1.0));
            }
            if let Some(mounted) = &mounted {
                let kernel = format!("{program} {}", work(&mounted.0));
                let [kernel, ours] = in_turn(ROUNDS, [&|| of(&kernel, 0), &|| of(&service, 0)]);
                let goal = if size < 64 << 10 { 1.0 } else { 5.0 };
                figures.push(row(MOUNT, &what, kernel, ours, goal));
            }
        }
    }
    for processes in [1, 4, 16, 64] {
        let work = work(&target, processes, 4 << 10, "strided");
        let found = numbers(&run(&with, &work));
        for (at, what, judged) in [
            (2, "open", Judged::Stated),
            (3, "fsync", Judged::Stated),
            (4, "close", Judged::Figure(1000.0)),
        ] {
            let what = format!("{what}, {processes} processes, the slowest");
            figures.push(Figure::new(LATENCY, what, None, found[at], "µs", judged));
        }
    }
    figures.push(positions(place));
    figures.extend(index(place, &run));
    figures
}

/// What a writer does to get a position, by itself: its locks, and the word in the service's
/// memory.
fn positions(place: &Place) -> Figure {
    let container = place.path("plfs-positions");
    let appends = format!("{container}/{APPENDS}");
    sh(&format!(
        "mkdir -p {container} && touch {appends} {container}/{HOLDER}"
    ));
    let found = std::fs::metadata(&container).expect("the directory was made");
    let file = FileId {
        device: found.dev(),
        inode: found.ino(),
    };
    let memory = Arc::new(Memory::new().expect("there is memory"));
    // Without a sign of its life a service gives out no places in memory.
    let _life = memory.live();
    let (files, (tell, told)) = (Files::new(1, Some(Arc::clone(&memory))), channel());
    let waiter = Box::new(move |answer| tell.send(answer).expect("it is waited for"));
    files.hold(file, container.as_bytes(), waiter);
    let Ok(Answer::Held(turn, Some(at))) = told.recv() else {
        panic!("the file is not held");
    };
    let lock = File::open(appends).expect("the file was made");
    let start = Instant::now();
    for _ in 0..POSITIONS {
        lock.lock_shared().expect("nobody else has it");
        let taken = memory.table().take(at, turn, 4096, 0);
        assert!(matches!(taken, Taken::Position(_)));
        lock.unlock().expect("it is locked");
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(POSITIONS);
    let (what, most) = ("a position, with its locks", 2000.0);
    Figure::new(LATENCY, what, None, each, "ns", Judged::Figure(most))
}

fn row(group: &'static str, what: &str, native: f64, ours: f64, goal: f64) -> Figure {
    let judged = Judged::Speed(goal);
    Figure::new(group, what, Some(native), ours, "s for each GB", judged)
}

/// The first 4 KiB at random of a file of 16 writers, 10 million records of 4 KiB in strides.
fn index(place: &Place, run: &dyn Fn(&str, &str) -> String) -> Vec<Figure> {
    let (program, target) = (place.program("plfs"), place.path("plfs-target"));
    let container = place.path("plfs-back/large");
    sh(&run("", &format!("write {target} 1 4096 4096 append")));
    sh(&format!(
        "mkdir -p {container}/meta && : > {container}/.plfsaccess113918400 && {program} records \
        {container} 16 625000 4096"
    ));
    let found = numbers(&run("", &format!("first {target}/large 20479995904")));
    sh(&format!("rm -r {container}"));
    let figure =
        |what, found, unit, most| Figure::new(INDEX, what, None, found, unit, Judged::Figure(most));
    vec![
        figure("the first 4 KiB at random", found[0], "ms", 1000.0),
        figure("most memory of the program", found[1], "MB", 64.0),
    ]
}
