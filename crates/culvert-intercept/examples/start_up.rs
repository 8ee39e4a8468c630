//! What rewriting costs at the start of a program, by phases: `cargo run --release --example
//! start_up`.
//!
//! Every measurement that changes code runs in a process of its own, as it can be made only once.

use culvert_intercept::{Interest, cache, elf::Image, functions::Functions, maps, patch, search};
use std::arch::global_asm;
use std::time::{Duration, Instant};

global_asm!("start_up_entry: movsxd rcx, dword ptr [r11 + 4]; add rcx, r11; jmp rcx");
unsafe extern "C" {
    fn start_up_entry();
}

static NUMBERS: [u8; 512] = [Interest::Always as u8; 512];
static DESCRIPTORS: [u8; 65536] = [0; 65536];
const LIBRARY: &str = "/lib/x86_64-linux-gnu/libstdc++.so.6";
const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

/// About what a file system in the process wants to see: calls with descriptors or paths, and what
/// the engine needs.
fn interest(number: usize) -> Interest {
    match number {
        0..=22
        | 32
        | 33
        | 40
        | 72..=95
        | 133
        | 137
        | 138
        | 161
        | 188..=199
        | 217
        | 257..=269
        | 280
        | 285 => Interest::Always,
        56..=59
        | 60
        | 131
        | 270
        | 271
        | 292
        | 295
        | 296
        | 302
        | 316
        | 322
        | 326..=332
        | 435..=439
        | 452 => Interest::Always,
        _ => Interest::Never,
    }
}

/// The smallest of some measurements, as everything else only adds.
fn least(count: usize, mut measured: impl FnMut() -> Duration) -> Duration {
    (0..count).map(|_| measured()).min().unwrap()
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// In a process of its own: rewrites everything and prints the nanoseconds.
fn child(mode: &str) {
    let directories: &'static [&'static [u8]] = match std::env::args().nth(2) {
        Some(directory) => vec![directory.leak().as_bytes()].leak(),
        None => &[],
    };
    let settings = patch::Settings {
        entry: start_up_entry as *const () as usize,
        interest: if mode == "all" {
            |_| Interest::Always
        } else {
            interest
        },
        numbers: NUMBERS.as_ptr() as usize,
        descriptors: DESCRIPTORS.as_ptr() as usize,
        own: child as *const () as usize,
        cache_directories: directories,
    };
    let library = (mode == "library").then(map_library);
    let start = Instant::now();
    let patched = match library {
        // SAFETY: this is the only thread.
        Some((address, length)) => unsafe { patch::range(&settings, address, length) },
        // SAFETY: as above.
        None => unsafe { patch::range(&settings, 0, usize::MAX) },
    };
    let spent = start.elapsed();
    println!(
        "{} {} {}",
        spent.as_nanos(),
        patched.patched.iter().sum::<usize>(),
        patched.cached
    );
}

/// Maps the code of a library as ld.so does; returns its address and length.
fn map_library() -> (usize, usize) {
    unsafe extern "C" {
        fn mmap(
            address: usize,
            length: usize,
            protection: i32,
            flags: i32,
            file: i32,
            offset: u64,
        ) -> usize;
    }
    let bytes = std::fs::read(LIBRARY).unwrap();
    let (_, _, headers) = culvert_intercept::elf::header(&bytes).unwrap();
    let loads = || {
        headers
            .iter()
            .filter(|header| header.kind == culvert_intercept::elf::LOAD)
    };
    let code = loads().find(|load| load.flags & 1 != 0).unwrap();
    let span = loads()
        .map(|load| load.address + load.memory_size)
        .max()
        .unwrap() as usize;
    let file = std::os::fd::IntoRawFd::into_raw_fd(std::fs::File::open(LIBRARY).unwrap());
    let (private, fixed, read, execute) = (2, 0x10, 1, 4);
    // SAFETY: at a new address, then over a part of that.
    unsafe {
        let base = mmap(0, span, read, private, file, 0);
        let address = mmap(
            base + code.address as usize,
            code.file_size as usize,
            read | execute,
            private | fixed,
            file,
            code.offset,
        );
        (address, code.file_size as usize)
    }
}

fn children(mode: &str, directory: Option<&str>) -> String {
    let mut report = String::new();
    let spent = least(20, || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.arg(mode).args(directory).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let fields: Vec<u64> = text
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        report = format!("{} sites, {} objects from the cache", fields[1], fields[2]);
        Duration::from_nanos(fields[0])
    });
    format!("{spent:>10.1?}  {report}")
}

fn main() {
    if let Some(mode) = std::env::args().nth(1) {
        return child(&mode);
    }
    let file = std::fs::read(LIBC).unwrap();
    let image = Image::of_file(&file).unwrap();
    let functions = Functions::of_image(&image);
    let found = search::find(&image, &functions);
    let directory = std::env::temp_dir().join(format!("culvert-start-up-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let key = cache::Key::of(&image).unwrap();
    let directories = [path.as_bytes()];

    let wanted = |_, _, number: i32| (interest(number as usize) == Interest::Always).then_some(());
    println!("phases, for libc ({} sites):", found.sites.len());
    println!(
        "{:>10.1?}  read /proc/self/maps",
        least(50, || time(maps::View::all))
    );
    println!(
        "{:>10.1?}  parse headers",
        least(50, || time(|| Image::of_file(&file)))
    );
    println!(
        "{:>10.1?}  list functions",
        least(50, || time(|| Functions::of_image(&image)))
    );
    println!(
        "{:>10.1?}  find and classify sites",
        least(20, || time(|| search::find(&image, &functions)))
    );
    println!(
        "{:>10.1?}  write the cache",
        least(20, || time(|| cache::store(
            &directories,
            &key,
            &found.sites
        )))
    );
    println!(
        "{:>10.1?}  read the cache",
        least(50, || time(|| cache::load(&directories, &key, wanted)))
    );
    println!(
        "a further library without system calls, as it is mapped (libstdc++, {} bytes):",
        std::fs::metadata(LIBRARY).map_or(0, |file| file.len())
    );
    println!("{}, no cache", children("library", None));
    children("library", Some(path));
    println!("{}, from the cache", children("library", Some(path)));
    println!("ld.so, libc, libgcc of a process, everything together:");
    println!("{}, all numbers, no cache", children("all", None));
    println!("{}, file calls, no cache", children("some", None));
    children("all", Some(path));
    println!(
        "{}, all numbers, from the cache",
        children("all", Some(path))
    );
    println!(
        "{}, file calls, from the cache",
        children("some", Some(path))
    );
    std::fs::remove_dir_all(directory).unwrap();
}
