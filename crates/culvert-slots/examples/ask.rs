//! Asks a FUSE server by slots: the attributes of its root again and again, and how long an answer
//! takes; then the bytes of a file in its root.
//!
//!     ask MOUNT-DIRECTORY [NAME [COUNT]]

use culvert_slots::{Caller, Channel, Client, Extension};
use std::{ffi::CString, io::Write, os::unix::ffi::OsStringExt, time::Instant};

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;

fn ask(client: &Client, opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let caller = Caller {
        extension: Extension::default(),
        uid: culvert_sys::process::geteuid(),
        gid: culvert_sys::process::getegid(),
        pid: std::process::id(),
    };
    let mut reply = Vec::new();
    let asked = client.call(
        caller,
        opcode,
        node,
        body.len(),
        &mut |payload| {
            payload.write(0, body);
            Ok(())
        },
        &mut |payload| {
            reply.resize(payload.len(), 0);
            payload.read(0, &mut reply);
            Ok(())
        },
    );
    if let Err(errno) = asked {
        eprintln!("ask: request {opcode} on {node}: {}", errno.text());
        std::process::exit(1);
    }
    reply
}

fn word(reply: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(reply[at..at + 8].try_into().unwrap_or_default())
}

fn main() {
    let mut words = std::env::args_os().skip(1);
    let directory = words.next().expect("a mount directory");
    let directory = CString::new(directory.into_vec()).expect("a path");
    let client = Client::open(&directory, None).expect("slots");
    let name = words.next();
    let count = words.next().and_then(|word| word.to_str()?.parse().ok());
    let count = count.unwrap_or(1000);
    let init = client.init_reply();
    eprintln!("FUSE {}.{}", word(&init, 0) as u32, word(&init, 0) >> 32);
    let began = Instant::now();
    for _ in 0..count {
        let attributes = ask(&client, GETATTR, 1, &[0; 16]);
        assert!(attributes.len() >= 96, "{}", attributes.len());
    }
    let each = began.elapsed().as_nanos() as f64 / f64::from(count) / 1000.0;
    eprintln!("GETATTR: {each:.1} us");
    let Some(name) = name else { return };
    let mut name = name.into_vec();
    name.push(0);
    let node = word(&ask(&client, LOOKUP, 1, &name), 0);
    let handle = word(&ask(&client, OPEN, node, &[0; 8]), 0);
    let (mut at, mut out) = (0u64, std::io::stdout().lock());
    loop {
        let mut read = [0; 40];
        read[..8].copy_from_slice(&handle.to_ne_bytes());
        read[8..16].copy_from_slice(&at.to_ne_bytes());
        read[16..20].copy_from_slice(&(128u32 << 10).to_ne_bytes());
        let bytes = ask(&client, READ, node, &read);
        if bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
        out.write_all(&bytes).expect("somebody who reads");
    }
    let mut release = [0; 24];
    release[..8].copy_from_slice(&handle.to_ne_bytes());
    ask(&client, RELEASE, node, &release);
    eprintln!("{at} bytes in {:?}", began.elapsed());
}
