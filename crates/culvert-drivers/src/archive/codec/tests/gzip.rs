use super::super::*;
use super::*;
use alloc::{sync::Arc, vec::Vec};

fn round(plain: &[u8], packed: Vec<u8>) -> Checkpoints {
    let mut out = Vec::new();
    let table = build(
        Format::Gzip,
        &packed,
        &mut |b| {
            out.extend_from_slice(b);
            Ok(())
        },
        &mut |_| {},
    )
    .unwrap();
    assert!(out == plain);
    let stream = Stream::open(
        Format::Gzip,
        Arc::new(packed),
        Checkpoints::decode(&table.encode()).unwrap(),
    )
    .unwrap();
    let mut random = Random(1);
    for _ in 0..2000 {
        let at = random.below(plain.len() as u64 + 10);
        let mut buffer = [0; 5000];
        let n = stream.read_at(at, &mut &mut buffer[..]).unwrap();
        assert!(
            buffer[..n] == plain[plain.len().min(at as usize)..plain.len().min(at as usize + 5000)]
        );
    }
    table
}

#[test]
fn first() {
    let packed = std::fs::read("/tmp/a2/mid.tar.gz").unwrap();
    let plain = std::fs::read("/tmp/a2/mid.tar").unwrap();
    let t = round(&plain, packed);
    std::eprintln!("{} points, {} bytes", t.count(), t.encode().len());
}

fn tool(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = std::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|s| {
        s.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap().stdout
    })
}
#[test]
fn small() {
    for n in [0, 1, 5, 100, 1000, 30000, 100000] {
        let plain: Vec<u8> = (0..n)
            .map(|i: u32| (i.wrapping_mul(i) / 77) as u8)
            .collect();
        let packed = tool("gzip", &["-c"], &plain);
        std::eprintln!("{n}");
        round(&plain, packed);
    }
}
