//! Kernel mounts: `culvert mount` of a directory in memory against the directory itself, and
//! against bindfs, as an ordinary user on mounts of root's.

use crate::compare::{Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, numbers, sh, succeeds};
use crate::writing::Worker;

const GROUP: &str =
    "kernel mount in memory: 4,096 files of 128 bytes, calls on 10,000, blocks of 4 KiB";
/// Columns of the tables.
const CULVERT: &str = "`culvert mount`";
const DEVICE: &str = "`-o transport=device`";
const MEMORY: &str = "`culvert mount -t memory`";
const BINDFS: &str = "bindfs";
const LIBFUSE: &str = "libfuse's passthrough_hp";
const AGAIN: &str = "native again";

/// A mount, as long as it lives.
pub struct Mounted {
    column: &'static str,
    target: String,
}

impl Mounted {
    /// What `command` mounts at a new directory of `worker`'s, which it ends with; none where that
    /// does not work.
    fn new(worker: &Worker, column: &'static str, name: &str, command: &str) -> Option<Self> {
        let target = format!("{}/{name}", worker.directory);
        let mounted = succeeds(&format!("mkdir -p {target} && {command} {target}"))
            && succeeds(&format!("chown 65534:65534 {target}"));
        if !mounted {
            eprintln!("not measured, does not work here: {command}");
        }
        mounted.then_some(Self { column, target })
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

/// Mounts of the worker's source; with `all` also by /dev/fuse alone, and one that has no source.
pub fn mounts(place: &Place, worker: &Worker, all: bool) -> Vec<Mounted> {
    let (culvert, source) = (&place.culvert, format!("{}/source", worker.directory));
    let mut mounts = vec![
        (
            CULVERT,
            "culvert",
            format!("{culvert} mount --allow-other {source}"),
        ),
        (
            DEVICE,
            "device",
            format!("{culvert} mount --allow-other -o transport=device {source}"),
        ),
        (
            MEMORY,
            "memory",
            format!("{culvert} mount --allow-other -t memory memory"),
        ),
        (BINDFS, "bindfs", format!("bindfs -o allow_other {source}")),
    ];
    // libfuse's example is in no package: built from its source by whoever wants the column.
    if let Ok(program) = std::env::var("PASSTHROUGH_HP") {
        let command = format!("{program} -o io_uring -o allow_other {source}");
        mounts.push((LIBFUSE, "libfuse", command));
    }
    mounts.retain(|(column, ..)| all || ![MEMORY, DEVICE].contains(column));
    mounts
        .iter()
        .filter_map(|(column, name, command)| Mounted::new(worker, column, name, command))
        .collect()
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let target = &self.target;
        if !succeeds(&format!("umount {target}")) {
            eprintln!("still mounted: {target}");
        }
    }
}

/// A name that a workload prints, what it is, and the part of the native speed that is asked.
type Asked = (&'static str, &'static str, f64);

/// What is asked of a directory that is passed through: this part of the native speed.
pub fn at_least(least: f64) -> impl Fn(&str) -> Judged {
    move |column| match column {
        CULVERT if least > 0.0 => Judged::Speed(least),
        _ => Judged::SpeedStated,
    }
}

/// Small files, calls and blocks.
pub fn mount(place: &Place) -> Vec<Figure> {
    if numbers("id -u")[0] != 0.0 {
        eprintln!("not measured: mounts that others use need root");
        return Vec::new();
    }
    let worker = Worker::new(&place.path("mounted"), 10_000);
    let mounts = mounts(place, &worker, true);
    let mut ways = vec![worker.native("native")];
    ways.extend(mounts.iter().map(|mounted| mounted.way(&worker)));
    ways.push(worker.native(AGAIN));
    ways.retain(Way::works);
    let files = place.program("files");
    let mut figures = Vec::new();
    // Workload and form. More is asked than libfuse's best example has over io_uring.
    let rows: [(&str, &str, &[Asked]); 3] = [
        (
            "blocks",
            "",
            &[
                ("rewrite", "write a block after the other", 0.8),
                ("random-read", "read blocks at random", 0.0),
            ],
        ),
        (
            "small",
            "",
            &[
                ("write", "create and write files of 128 bytes", 0.12),
                ("read", "open and read them for the first time", 0.25),
            ],
        ),
        (
            "calls",
            "path",
            &[
                ("create", "create", 0.11),
                ("stat", "stat", 0.0),
                ("chmod", "chmod", 0.08),
                ("open", "open and close", 0.0),
                ("rename", "rename", 0.0),
                ("unlink", "unlink", 0.09),
            ],
        ),
    ];
    for (workload, form, names) in rows {
        for row in compare(&ways, &files, workload, form, 5) {
            if let Some((_, what, least)) = names.iter().find(|(name, ..)| *name == row.name) {
                figures.extend(row.figures(GROUP, what, "ns", at_least(*least)));
            }
        }
    }
    for mounted in &mounts {
        let resident = sh(&format!(
            "for p in $(pgrep -f -- ' {}$'); do awk '/VmRSS/ {{ print $2 / 1024 }}' \
            /proc/$p/status; done | sort -n | tail -n 1",
            mounted.target
        ));
        if let Ok(megabytes) = resident.trim().parse() {
            let judged = match mounted.column {
                CULVERT => Judged::Figure(10.0),
                _ => Judged::Stated,
            };
            let figure = Figure::new(
                GROUP,
                "server's memory after that",
                None,
                megabytes,
                "MB",
                judged,
            );
            figures.push(figure.column(mounted.column));
        }
    }
    figures
}
