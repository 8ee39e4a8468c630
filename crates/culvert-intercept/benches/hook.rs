//! What interception costs: `cargo bench -p culvert-intercept`. One run, medians; ratios are
//! comparable between machines, nanoseconds are not.

use culvert_intercept::{Config, ForkHooks, Interest, Interests, Outcome, descriptors, install};
use culvert_sys::nr;
use std::{fs::File, hint::black_box, os::fd::AsRawFd, time::Instant};

unsafe extern "C" {
    fn getppid() -> i32;
    fn getpgrp() -> i32;
    fn lseek(fd: i32, offset: i64, whence: i32) -> i64;
}

#[inline(never)]
fn empty() -> i32 {
    black_box(1)
}

/// The median of rounds, nanoseconds per call.
fn measure(mut call: impl FnMut()) -> f64 {
    const ROUNDS: usize = 101;
    const CALLS: u32 = 4000;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let file = File::open("/dev/null").expect("there is always one");
    let fd = file.as_raw_fd();
    // SAFETY: calls without effect.
    let native = unsafe {
        [
            measure(|| _ = black_box(getppid())),
            measure(|| _ = black_box(lseek(fd, 0, 1))),
        ]
    };
    let config = Config {
        handler: |call| {
            if call.number == nr::GETPPID {
                Outcome::Return(1)
            } else {
                Outcome::Forward
            }
        },
        interests: const {
            let mut wished = [Interest::Never; 512];
            wished[nr::GETPPID] = Interest::Always;
            wished[nr::GETPGRP] = Interest::Always;
            wished[nr::LSEEK] = Interest::Descriptor0;
            &Interests::new(wished)
        },
        fork: ForkHooks {
            thread: || (),
            before: |_| (),
            parent: |_, _| (),
            child: |_| (),
        },
        fresh: false,
        patch: true,
        cache_directories: &[],
        images: None,
        known_images: &[],
        said_of_program: None,
        may_make_images: || true,
        log: |line| eprintln!("{}", String::from_utf8_lossy(line)),
    };
    // SAFETY: the only thread.
    unsafe { install(config) }.expect("installed");
    descriptors::set(fd, descriptors::FOREIGN);
    // SAFETY: calls without effect.
    let (empty, hook, forwarded, foreign) = unsafe {
        assert_eq!(getppid(), 1, "patched");
        (
            measure(|| _ = black_box(empty())),
            measure(|| _ = black_box(getppid())),
            measure(|| _ = black_box(getpgrp())),
            measure(|| _ = black_box(lseek(fd, 0, 1))),
        )
    };
    println!("an empty call                 {empty:7.1} ns");
    println!("getppid, native               {:7.1} ns", native[0]);
    println!(
        "getppid, answered by a hook   {hook:7.1} ns   {:.3} of native, {:.1} ns over an empty \
        call",
        hook / native[0],
        hook - empty
    );
    println!("getpgrp, forwarded by a hook  {forwarded:7.1} ns");
    println!("lseek, native                 {:7.1} ns", native[1]);
    println!(
        "lseek, foreign descriptor     {foreign:7.1} ns   {:.3} of native, {:+.1} ns",
        foreign / native[1],
        foreign - native[1]
    );
}
