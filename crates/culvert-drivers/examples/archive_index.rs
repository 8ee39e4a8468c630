//! Times what the archive driver does: making an index, opening with one, looking up and reading
//! every file.
//!
//! `cargo run --release -p culvert-drivers --example archive_index ARCHIVE`; compare with `time tar
//! tf ARCHIVE`.

use culvert::mount::Mount;
use culvert::{Caller, FileKind, FileSystem, Node, OpenFlags, Opened};
use culvert_drivers::Environment;
use culvert_drivers::archive::build;
use culvert_drivers::archive::bytes::FileBytes;
use culvert_sys::{nr, syscall};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CALLER: Caller<'static> = Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 1,
    umask: 0,
    rights: None,
};

fn files(fs: &dyn FileSystem, directory: Node, path: &[u8], all: &mut Vec<(Vec<u8>, Node)>) {
    let mut entries = Vec::new();
    fs.read_directory(&CALLER, directory, 0, &mut |entry| {
        let path = [path, entry.name].concat();
        entries.push((path, Node(entry.inode), entry.kind));
        true
    })
    .unwrap();
    for (path, node, kind) in entries {
        match kind {
            FileKind::Directory => files(fs, node, &[&path, &b"/"[..]].concat(), all),
            FileKind::Regular => all.push((path, node)),
            _ => {}
        }
    }
}

/// User and system time of this process so far (CLOCK_PROCESS_CPUTIME_ID): what a busy machine does
/// not spoil.
fn processor_time() -> Duration {
    let mut time = [0u64; 2];
    // SAFETY: the kernel fills a struct timespec, two 64-bit numbers.
    unsafe { syscall::call(nr::CLOCK_GETTIME, [2, time.as_mut_ptr() as usize]) }.unwrap();
    Duration::new(time[0], time[1] as u32)
}

fn main() {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: archive_index ARCHIVE");
        std::process::exit(2);
    };
    let path = path.as_bytes();
    let (mut times, mut processor) = (Vec::new(), Vec::new());
    let mut size = 0;
    for _ in 0..5 {
        let (start, before) = (Instant::now(), processor_time());
        let archive = Arc::new(FileBytes::open(path).unwrap().0);
        let parts = build::build(&archive, false, &mut |_| {}).unwrap();
        size = parts.pieces().map(<[u8]>::len).sum::<usize>();
        times.push(start.elapsed());
        processor.push(processor_time() - before);
    }
    times.sort();
    processor.sort();
    println!(
        "index: {:?}, of processor time {:?} (medians of 5), {size} bytes",
        times[2], processor[2]
    );

    let cache = std::env::temp_dir().join(format!("archive_index-{}", std::process::id()));
    let environment = Environment {
        cache_directory: Some(cache.as_os_str().as_bytes()),
        ..Environment::default()
    };
    let mount = Mount {
        driver: "archive".into(),
        source: path.to_vec(),
        target: b"/mnt".to_vec(),
        options: Vec::new(),
        branches: Vec::new(),
    };
    let prepare = || culvert_drivers::prepare(&mount, &environment, &mut |_| {}).unwrap();
    let start = Instant::now();
    prepare();
    println!("prepare, no index: {:?}", start.elapsed());
    let start = Instant::now();
    let prepared = prepare();
    println!("prepare, cached: {:?}", start.elapsed());
    let environment = Environment::default();
    let mut opens: Vec<_> = (0..101)
        .map(|_| {
            let start = Instant::now();
            let fs = culvert_drivers::open(&prepared.mount, &environment).unwrap();
            let time = start.elapsed();
            drop(fs);
            time
        })
        .collect();
    opens.sort();
    println!("open in a process: {:?} (median of 101)", opens[50]);

    let fs = culvert_drivers::open(&prepared.mount, &environment).unwrap();
    let mut all = Vec::new();
    files(&*fs, fs.root(), b"", &mut all);
    println!("processor time from here on:");
    let per = |before: Duration| (processor_time() - before) / all.len().max(1) as u32;
    for round in 0..2 {
        let start = processor_time();
        for (path, _) in &all {
            black_box(fs.walk(&CALLER, fs.root(), path).unwrap());
        }
        println!(
            "walk from the root, round {round}: {:?} per file, {} files",
            per(start),
            all.len()
        );
    }
    let start = processor_time();
    for (path, _) in &all {
        let _ = black_box(fs.walk(&CALLER, fs.root(), &[path, &b"x"[..]].concat()));
    }
    println!("walk to nothing: {:?} per file", per(start));
    let mut buffer = vec![0; 128 << 10];
    let (start, mut bytes) = (processor_time(), 0);
    for (_, node) in &all {
        let Ok(Opened::Driven(file)) = fs.open(&CALLER, *node, OpenFlags(0)) else {
            continue;
        };
        let mut offset = 0;
        while let Ok(count @ 1..) = file.read_at(offset, &mut &mut buffer[..]) {
            offset += count as u64;
        }
        bytes += offset;
    }
    let seconds = (processor_time() - start).as_secs_f64();
    println!(
        "open and read all: {:?} per file, {:.0} MB/s",
        per(start),
        bytes as f64 / 1e6 / seconds
    );
    let _ = std::fs::remove_dir_all(cache);
}
