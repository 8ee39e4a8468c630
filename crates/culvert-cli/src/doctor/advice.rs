//! What becomes of the mounts in programs that are intercepted, but hand work to others: sandboxes,
//! daemons, io_uring.

use crate::program;
use culvert_intercept::analysis::Analysis;
use std::{
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Programs by what they do, and what follows.
const KINDS: &[(&str, &str)] = &[
    (
        "bwrap firejail flatpak minijail0 nsjail systemd-nspawn",
        "makes sandboxes: what runs in one sees the mounts if libculvert.so and the run directory \
        are there too \
         (bwrap --bind /dev/shm /dev/shm); else: `culvert mount` shows the same files to every \
         program",
    ),
    (
        "chroot nsenter unshare pivot_root schroot debootstrap",
        "changes namespaces or the root directory: below another root the mounts are out of reach; \
         mount there: `culvert mount SOURCE ROOT/TARGET`",
    ),
    (
        "docker podman nerdctl ctr lxc machinectl systemd-run at batch ssh",
        "asks a daemon to start programs, which are none of the run: use `culvert mount`, or run \
        culvert there",
    ),
    (
        "chromium chromium-browser chrome google-chrome firefox firefox-esr electron \
         code brave-browser microsoft-edge",
        "starts sandboxed processes of its own, which open no files by themselves: its main \
        process opens those of the \
         mounts for them; if one misses them, use `culvert mount`",
    ),
];

/// What is said of a program that can make rings.
const RINGS: &str = "can use io_uring: where a ring, or a request on a file of a mount, is \
    refused, it has to do without; \
     `culvert mount` knows no such limit";

/// What there is to say of the program `file`, by way of whose interpreter `runs` runs.
pub fn of(file: &Path, runs: &Path, makes_rings: bool) -> Vec<String> {
    let is = |path: &Path, name: &str| path.file_name().is_some_and(|found| found == name);
    let kinds = KINDS.iter().filter(|(names, _)| {
        let mut names = names.split(' ');
        names.any(|name| is(file, name) || is(runs, name))
    });
    let kinds = kinds.map(|(_, text)| *text);
    kinds
        .chain(makes_rings.then_some(RINGS))
        .map(str::to_owned)
        .collect()
}

/// Whether an object makes rings: it has the call itself, as liburing has, or is libuv, which asks
/// for its number by syscall(2).
pub fn makes_rings(bytes: &[u8], analysis: Option<&Analysis>) -> bool {
    const IO_URING_SETUP: i64 = 425;
    const UV: &[u8] = b"UV_USE_IO_URING";
    let sites = analysis.iter().flat_map(|analysis| &analysis.sites);
    sites
        .map(|site| site.number as i64)
        .any(|number| number == IO_URING_SETUP)
        || bytes.windows(UV.len()).any(|window| window == UV)
}

/// The program that a script beginning with `#!/usr/bin/env NAME` means: env(1) looks for it.
pub fn started_by_env(file: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    std::fs::File::open(file)
        .ok()?
        .take(256)
        .read_to_end(&mut head)
        .ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let interpreter = Path::new(std::ffi::OsStr::from_bytes(words.next()?));
    if interpreter.file_name()? != "env" {
        return None;
    }
    // Options (-S), and variables before the name.
    let mut rest = words.filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    program::find(std::ffi::OsStr::from_bytes(rest.next()?)).ok()
}
