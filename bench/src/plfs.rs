//! Many processes write one file, as Fs_test does: with the synchronisation service, without it,
//! and by the kernel mount of the same driver.

use crate::figure::{Figure, Judged};
use crate::tools::{Place, median, numbers, progress, sh, succeeds};
use culvert_sync::{files::Files, memory::Memory};
use culvert_sync_wire::{APPENDS, Answer, FileId, HOLDER, memory::Taken};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc::channel};
use std::time::Instant;

const MOUNT: &str = "plfs: writing, by the speed of its kernel mount";
const BYPASS: &str = "plfs: with the service, by the speed of the bypass without";
const LATENCY: &str = "plfs: latencies";
const INDEX: &str = "plfs: an index of 10 million records";
const GLUSTER: &str = "plfs on GlusterFS, by the speed of a plain file there";
const SERVICE: &str = "with the service";
/// Bytes of Fs_test's files.
const SMALL: u64 = 256 << 20;
const LARGE: u64 = 2 << 30;
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

/// Commands that are compared.
struct Ways<'a> {
    place: &'a Place,
    program: String,
    mounted: Option<Mounted>,
}

impl Ways<'_> {
    /// The work as a run does it, with these options.
    fn run(&self, options: &str, work: &str) -> String {
        let (culvert, program) = (&self.place.culvert, &self.program);
        let [back, target] = ["plfs-back", "plfs-target"].map(|name| self.place.path(name));
        format!(
            "{culvert} run --mount 'type=plfs,source={back},target={target}{options}' -- \
            {program} {work}"
        )
    }

    fn with_service(&self) -> String {
        format!(",sync={}", self.place.path("plfs-sync"))
    }

    fn target(&self) -> String {
        self.place.path("plfs-target")
    }

    /// Rows of `total` bytes, written and read in pieces of `size` by [`PROCESSES`].
    fn rows(&self, total: u64, (size, name): (u64, &str), how: &str, rounds: usize) -> Vec<Figure> {
        let work = |directory: &str, how: &str| {
            format!("write {directory} {PROCESSES} {size} {total} {how}")
        };
        let file = format!("{} MB, {name}, {how}", total >> 20);
        progress(&file);
        let ours = self.run(&self.with_service(), &work(&self.target(), how));
        let alone = self.run("", &work(&self.target(), how));
        // As fast as the back end is, where nobody else writes into the file.
        let native = format!("{} {}", self.program, work(&self.place.path(""), "own"));
        let kernel = self.mounted.as_ref();
        let kernel = kernel.map(|mounted| format!("{} {}", self.program, work(&mounted.0, how)));
        let mut commands = vec![&ours, &alone, &native];
        commands.extend(&kernel);
        let mut taken = vec![[const { Vec::new() }; 2]; commands.len()];
        for _ in 0..rounds {
            for (command, taken) in commands.iter().zip(&mut taken) {
                // Seconds for each GB, of writing and of reading.
                for (values, found) in taken.iter_mut().zip(numbers(command)) {
                    values.push(1000.0 / found);
                }
            }
        }
        let taken: Vec<_> = taken.into_iter().map(|both| both.map(median)).collect();
        let ([ours, alone, native], kernel) = ([taken[0], taken[1], taken[2]], taken.get(3));
        let write = format!("write {file}");
        let mut rows = vec![row(BYPASS, &write, alone[0], ours[0], 0.97)];
        if how == "strided" {
            rows.push(row(BYPASS, &format!("read {file}"), alone[1], ours[1], 1.0));
        }
        if let Some(kernel) = kernel {
            let goal = if size < 64 << 10 { 1.0 } else { 5.0 };
            rows.push(row(MOUNT, &write, kernel[0], ours[0], goal));
            let stated = row(MOUNT, &write, kernel[0], native[0], 0.0);
            let column = "files of their own, without plfs";
            rows.push(Figure {
                column,
                judged: Judged::SpeedStated,
                ..stated
            });
        }
        rows
    }
}

/// All of it. `PLFS=MB` is another size than 256 MB, and leaves out what is large.
pub fn plfs(place: &Place) -> Vec<Figure> {
    let asked = std::env::var("PLFS").ok();
    let asked = asked.and_then(|text| text.parse::<u64>().ok());
    let total = asked.map_or(SMALL, |megabytes| megabytes << 20);
    let [back, target] = ["plfs-back", "plfs-target"].map(|name| place.path(name));
    sh(&format!("mkdir -p {back} {target}"));
    let (_service, program) = (Service::new(place), place.program("plfs"));
    let mounted = Mounted::new(place);
    let ways = Ways {
        place,
        program,
        mounted,
    };
    let mut figures = Vec::new();
    let sizes = [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];
    for size in sizes {
        for how in ["strided", "segmented", "append"] {
            figures.extend(ways.rows(total, size, how, ROUNDS));
        }
    }
    if asked.is_none() {
        for size in sizes {
            figures.extend(ways.rows(LARGE, size, "strided", 1));
        }
    }
    for processes in [1, 4, 16, 64] {
        figures.extend(latencies(&ways, processes));
    }
    progress("positions");
    figures.push(positions(place));
    progress("an index");
    figures.extend(index(&ways, asked.is_some()));
    progress("GlusterFS");
    figures.extend(gluster(place));
    progress("");
    figures
}

/// Of `processes` that write 256 KiB each, the slowest in each step; the middle of several.
fn latencies(ways: &Ways<'_>, processes: u64) -> Vec<Figure> {
    progress(&format!("{processes} processes"));
    let (target, total) = (ways.target(), processes << 18);
    let work = format!("write {target} {processes} 4096 {total} strided");
    let command = ways.run(&ways.with_service(), &work);
    let found: Vec<_> = (0..5).map(|_| numbers(&command)).collect();
    let steps = [
        (2, "open", Judged::Stated),
        (3, "fsync", Judged::Stated),
        (4, "close", Judged::Figure(1000.0)),
    ];
    let figures = steps.into_iter().map(|(at, what, judged)| {
        let middle = median(found.iter().map(|numbers| numbers[at]).collect());
        let what = format!("plfs: {what}, the slowest of {processes} processes");
        Figure::new(LATENCY, what, None, middle, "µs", judged)
    });
    figures.collect()
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
    let (what, most) = ("plfs: a position, with its locks", 2000.0);
    Figure::new(LATENCY, what, None, each, "ns", Judged::Figure(most))
}

/// Seconds that each GB takes.
fn row(group: &'static str, what: &str, native: f64, ours: f64, goal: f64) -> Figure {
    let judged = Judged::Speed(goal);
    Figure::new(group, what, Some(native), ours, "s for each GB", judged).column(SERVICE)
}

/// The first 4 KiB at random of a file of 16 writers, 10 million records of 4 KiB in strides.
fn index(ways: &Ways<'_>, small: bool) -> Vec<Figure> {
    let (program, target) = (&ways.program, ways.target());
    let container = ways.place.path("plfs-back/large");
    let each: u64 = if small { 62_500 } else { 625_000 };
    sh(&format!(
        "mkdir -p {container}/meta && : > {container}/.plfsaccess113918400 && {program} records \
        {container} 16 {each} 4096"
    ));
    let found = numbers(&ways.run("", &format!("first {target}/large {}", each * 8 * 4096)));
    sh(&format!("rm -r {container}"));
    let figure = |what, found, unit, most| {
        let what = format!("plfs: {} records, {what}", 16 * each);
        Figure::new(INDEX, what, None, found, unit, Judged::Figure(most))
    };
    vec![
        figure("the first 4 KiB at random", found[0], "ms", 1000.0),
        figure("most memory of the program", found[1], "MB", 64.0),
    ]
}

/// 16 writers of 47,008 bytes each in turn, on a volume of two bricks. Nothing without GlusterFS.
fn gluster(place: &Place) -> Vec<Figure> {
    if !succeeds("command -v glusterd && test $(id -u) = 0") {
        return Vec::new();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let command = format!(
        "CULVERT_BIN={} {}/tests/cluster/run 2 speed",
        place.culvert,
        root.display()
    );
    let said = sh(&command);
    let middle = |what: &str| {
        let each = said.lines().filter_map(|line| {
            let speed = line.strip_prefix(what)?.strip_prefix(": ")?;
            speed.strip_suffix(" MB/s")?.parse::<f64>().ok()
        });
        median(each.map(|speed| 1000.0 / speed).collect())
    };
    let (plain, what) = (
        middle("one file on GlusterFS"),
        "write and sync 47,008 bytes, strided, 16 processes",
    );
    let ways = [("", "plfs"), (",index=lazy", "plfs, index=lazy")];
    let each = ways.into_iter().map(|(options, column)| {
        let ours = middle(&format!("plfs on GlusterFS{options}"));
        row(GLUSTER, what, plain, ours, 1.0).column(column)
    });
    each.collect()
}
