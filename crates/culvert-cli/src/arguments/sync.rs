//! The words of `culvert sync`.

use super::Command;
use crate::failure::Failure;
use crate::sync::Sync;
use culvert_sync::Kind;
use lexopt::Arg::{Long, Short, Value};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What `culvert sync --help` says.
pub const HELP: &str = "\
Usage: culvert sync [--socket PATH] [--hosts DIR [--listen ADDRESS:PORT] [--tls]]
                    [--workers N] [--clients N]

Serves mounts of the type plfs with sync=auto or sync=PATH: says where each of
many writers of a file appends. It is this user's alone, and stays in the
foreground. culvert run starts one by itself where a mount says sync=auto.

      --socket PATH  where it listens; usually where sync=auto looks for it
      --hosts DIR    serve mounts with sync=hosts on all hosts that share the
                     back end DIR; one service does, others wait for its end
      --listen A:P   where those connect; usually a free port of 127.0.0.1
      --tls          by TLS: what those ask cannot be read on the way; their
                     mounts have tls=yes
      --workers N    threads that answer (4)
      --clients N    processes that are connected at most (1024)

  culvert sync --socket /tmp/sync
  culvert sync --hosts /scratch/plfs --listen 10.0.0.7:4711 --tls
";

/// Reads what follows `sync`.
pub fn sync(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert sync --help");
    let mut wanted = Sync::default();
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Long("socket") => wanted.socket = Some(PathBuf::from(parser.value().map_err(bad)?)),
            Long("hosts") => wanted.hosts = Some(PathBuf::from(parser.value().map_err(bad)?)),
            Long("listen") => wanted.listen = Some(address(parser)?),
            Long("tls") => wanted.tls = true,
            Long("workers") => wanted.workers = number(parser, "--workers", 256)?,
            Long("clients") => wanted.clients = number(parser, "--clients", 65536)?,
            other => return Err(bad(other.unexpected())),
        }
    }
    let of_hosts = match &wanted {
        Sync { hosts: Some(_), .. } => None,
        Sync { listen, tls, .. } => listen.map(|_| "--listen").or(tls.then_some("--tls")),
    };
    match of_hosts {
        Some(word) => {
            Err(Failure::new(format!("{word} is for --hosts")).advice("try: culvert sync --help"))
        }
        None => Ok(Command::Sync(wanted)),
    }
}

/// An address that clients can connect to.
fn address(parser: &mut lexopt::Parser) -> Result<SocketAddr, Failure> {
    let wrong = |text: String| Failure::new(text).advice("try: culvert sync --help");
    let text = parser.value().map_err(|error| wrong(error.to_string()))?;
    let address: Option<SocketAddr> = text.to_str().and_then(|text| text.parse().ok());
    address
        .filter(|address| !address.ip().is_unspecified())
        .ok_or_else(|| {
            wrong(String::from(
                "--listen wants ADDRESS:PORT, as 10.0.0.7:4711",
            ))
        })
}

fn number(parser: &mut lexopt::Parser, name: &str, most: usize) -> Result<usize, Failure> {
    let wrong = |text: String| Failure::new(text).advice("try: culvert sync --help");
    let text = parser.value().map_err(|error| wrong(error.to_string()))?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| wrong(format!("{name} wants a number from 1 to {most}")))
}

/// Reads what follows the word for one of this `kind` in the background: its socket.
pub fn background(parser: &mut lexopt::Parser, kind: Kind) -> Result<Command, Failure> {
    match parser.next() {
        Ok(Some(Value(socket))) => Ok(Command::SyncInBackground(socket.into(), kind)),
        _ => Err(Failure::new("no socket given")),
    }
}
