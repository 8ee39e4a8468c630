//! How fast the codecs are: the build pass of a compressed file against its own tool, then random
//! and sequential reads.
//!
//! `cargo run --release -p culvert-drivers --example codec_bench -- FILE...`

use culvert::{Error, Result};
use culvert_drivers::archive::{
    bytes::{Bytes, FileBytes},
    codec::{self, Format, Stream},
};
use std::{
    hint::black_box,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

fn main() -> Result<()> {
    for path in std::env::args().skip(1) {
        measure(&path).map_err(|error| error.within(&path))?;
    }
    Ok(())
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e6
}

fn measure(path: &str) -> Result<()> {
    let (raw, _) = FileBytes::open(path.as_bytes())?;
    let raw: Arc<dyn Bytes> = Arc::new(raw);
    let mut prefix = [0; 16];
    raw.read_at(0, &mut prefix)?;
    let Some(format) = codec::detect(&prefix) else {
        return Err(Error::because(culvert::Errno::EINVAL, "not compressed"));
    };

    let start = Instant::now();
    let table = codec::build(
        format,
        &*raw,
        &codec::Options::default(),
        &mut |bytes| {
            black_box(bytes);
            Ok(())
        },
        &mut |_| {},
    )?;
    let build = start.elapsed();
    let plain = table.plain_len();
    println!(
        "{path}: {} bytes, {plain} plain; {} points, table {} bytes",
        raw.len(),
        table.count(),
        table.clone().encode().len()
    );
    println!("  build pass      {:7.0} MB/s", rate(plain, build));
    println!(
        "  {:15} {:7.0} MB/s",
        format!("{} -dc", format.name()),
        rate(plain, tool(format, path))
    );

    let stream = Stream::open(format, raw, table)?;
    let mut buffer = vec![0; 128 << 10];
    let start = Instant::now();
    let mut at = 0;
    loop {
        match stream.read_at(at, &mut &mut buffer[..])? {
            0 => break,
            count => at += count as u64,
        }
    }
    println!(
        "  sequential read {:7.0} MB/s",
        rate(plain, start.elapsed())
    );

    // xorshift64*: the same places every run.
    let mut state = 88_172_645_463_325_252_u64;
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while times.len() < 4000 && Instant::now() < end {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let at = state.wrapping_mul(0x2545_f491_4f6c_dd1d) % plain.max(1);
        let start = Instant::now();
        stream.read_at(at, &mut &mut buffer[..4096])?;
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "  random 4 KiB    median {:?}, p99 {:?}, {} reads",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times.len()
    );
    Ok(())
}

fn tool(format: Format, path: &str) -> Duration {
    let start = Instant::now();
    let status = Command::new(format.name())
        .args(["-dc", path])
        .stdout(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()));
    start.elapsed()
}
