//! The synchronisation service: `culvert sync`, and the one that mounts with `sync=auto` have; the
//! relay of mounts with `tls=yes`.

use crate::base::{base, open_base};
use crate::failure::{Failure, reason, shown};
use crate::own_path::own_path;
use culvert::mount::Mount;
use culvert_launch::directory::entries;
use culvert_launch::run_directory::{is_held, lock_of, runs};
use culvert_server::mounting::table::{self, Line};
use culvert_sync::lease::{self, Lease};
use culvert_sync::{Identity, Kind, Listener, Secret, Service, Settings};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The words with which the command becomes a service, or a relay, in the background. Not for
/// users.
pub const WORD: &str = "run-sync";
pub const RELAY_WORD: &str = "run-sync-relay";
/// The names of their sockets in the user's base.
const SOCKET: &str = "sync";
const RELAY: &str = "sync-relay";
/// Most connections of a relay.
const MOST_RELAYED: usize = 4096;
/// One that was started for a mount ends when it has had no client for so long, and there is no
/// mount.
const LEAVE: Duration = Duration::from_secs(600);
/// For how long one that does not answer is given time to end; it may just wait for its lease.
const ENDING: Duration = Duration::from_millis(30);
/// How often a service looks whether it still has its lease.
const LOOK: Duration = Duration::from_millis(10);

/// `culvert sync`.
#[derive(Debug)]
pub struct Sync {
    /// Where it listens; none: where `sync=auto` looks.
    pub socket: Option<PathBuf>,
    /// The back end whose mounts on all hosts it serves.
    pub hosts: Option<PathBuf>,
    /// Where those connect; none: a port of 127.0.0.1.
    pub listen: Option<SocketAddr>,
    /// They have to, by TLS.
    pub tls: bool,
    /// Threads that answer.
    pub workers: usize,
    /// Most clients.
    pub clients: usize,
}

impl Default for Sync {
    fn default() -> Self {
        let Settings {
            workers, clients, ..
        } = Settings::default();
        Self {
            socket: None,
            hosts: None,
            listen: None,
            tls: false,
            workers,
            clients,
        }
    }
}

fn usual() -> Result<PathBuf, Failure> {
    Ok(base()?.join(SOCKET))
}

fn cannot(socket: &Path, error: &io::Error) -> Failure {
    let socket = shown(socket);
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(format!("there is a service at {socket}"))
            .advice("mounts with sync=auto use it"),
        _ => Failure::new(format!("cannot serve at {socket}: {}", reason(error))),
    }
}

/// Serves in the foreground, until a signal ends it.
pub fn serve(wanted: &Sync) -> Result<u8, Failure> {
    let socket = match &wanted.socket {
        Some(socket) => socket.clone(),
        None => usual()?,
    };
    let settings = Settings {
        workers: wanted.workers,
        clients: wanted.clients,
        ..Settings::default()
    };
    let failed = |error: io::Error| cannot(&socket, &error);
    // Who waits for the lease of another one serves nobody, and will find his socket free.
    let reserved = Listener::reserve(&socket).map_err(failed)?;
    let lease = match &wanted.hosts {
        Some(backend) => Some(leased(backend, wanted)?),
        None => None,
    };
    let service = reserved.listen(Kind::Service);
    let service = service.and_then(|listener| Service::new(listener, settings));
    let mut service = service.map_err(failed)?;
    match lease {
        Some((lease, identity, listener, secret)) => {
            let address = listener.local_addr().map_err(failed)?;
            let by = identity.as_ref().map_or("", |_| " by TLS");
            let served = service.serve_hosts(listener, secret, identity, lease.epoch());
            served.map_err(failed)?;
            let (epoch, stopper) = (lease.epoch(), service.stopper());
            std::thread::spawn(move || {
                let lost = loop {
                    match lease.is_ours() {
                        Ok(true) => std::thread::sleep(LOOK),
                        Ok(false) => break String::from("another service has taken the lease"),
                        Err(error) => break format!("cannot read the lease: {}", reason(&error)),
                    }
                };
                eprintln!("culvert: {lost}");
                stopper.stop();
            });
            eprintln!(
                "culvert: serving at {} and {address}{by}, epoch {epoch}",
                shown(&socket)
            );
        }
        None => eprintln!("culvert: serving at {}", shown(&socket)),
    }
    service.run(|| true).map_err(failed)?;
    Ok(0)
}

/// The lease of `backend`, for a service that listens at what is returned with it: waits while
/// another one has it.
fn leased(
    backend: &Path,
    wanted: &Sync,
) -> Result<(Lease, Option<Identity>, TcpListener, Secret), Failure> {
    let failed = |error: io::Error| {
        let why = reason(&error);
        Failure::new(format!("cannot serve hosts by {}: {why}", shown(backend)))
    };
    let listen = wanted
        .listen
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    let listener = TcpListener::bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let secret = lease::secret(backend).map_err(failed)?;
    let identity = wanted.tls.then(Identity::new).transpose();
    let identity = identity.map_err(failed)?;
    let key = identity.as_ref().map(Identity::key);
    let lease = match Lease::take(backend, address, key).map_err(failed)? {
        Some(lease) => lease,
        None => {
            eprintln!(
                "culvert: another service has the lease of {}: waiting",
                shown(backend)
            );
            Lease::wait(backend, address, key).map_err(failed)?
        }
    };
    Ok((lease, identity, listener, secret))
}

unsafe extern "C" {
    /// fork(2) of the C library, which keeps its own books right.
    safe fn fork() -> i32;
}

/// Becomes a service, or a relay, at `socket`, in a child that nobody waits for, once it listens,
/// and in a child of that. It is fine if there is one.
pub fn serve_in_background(socket: &Path, kind: Kind) -> Result<u8, Failure> {
    // The lock of a run among them. Nothing is open here yet.
    let _ = culvert_sys::fd::close_range(3, u32::MAX, 0);
    let failed = |error: io::Error| cannot(socket, &error);
    let until = Instant::now() + ENDING;
    let listener = loop {
        match Listener::reserve(socket).and_then(|reserved| reserved.listen(kind)) {
            // It answers, or it is just about to end, and has taken its socket away.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if Listener::answers(socket, kind) || Instant::now() > until {
                    return Ok(0);
                }
                std::thread::sleep(LOOK);
            }
            listener => break listener.map_err(failed)?,
        }
    };
    match fork() {
        -1 => return Err(failed(io::Error::last_os_error())),
        0 => {}
        // The child's, with its socket.
        _ => {
            std::mem::forget(listener);
            return Ok(0);
        }
    }
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    // Who reads the starting program's output is not kept waiting for its end.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
    if let Some(code) = stand_by() {
        std::mem::forget(listener);
        return Ok(code);
    }
    if kind == Kind::Relay {
        culvert_sync::relay(&listener, MOST_RELAYED, LEAVE, mounts_live).map_err(failed)?;
        return Ok(0);
    }
    let settings = Settings {
        leave: Some(LEAVE),
        ..Settings::default()
    };
    let service = Service::new(listener, settings).map_err(failed)?;
    service.run(mounts_live).map_err(failed)?;
    Ok(0)
}

/// Becomes a child, and another one each time that one is killed, by the kernel where memory is
/// short, or because it fails: at the socket, which all of them have, the next one goes on. What
/// ends this process, once one has ended by itself or was told to; none in a child.
fn stand_by() -> Option<u8> {
    loop {
        let since = Instant::now();
        let child = match fork() {
            // It is not watched over then.
            -1 | 0 => return None,
            child => Pid::from_raw(child)?,
        };
        let status = loop {
            match waitpid(Some(child), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                Err(_) | Ok(None) => return Some(0),
                Ok(Some((_, status))) => break status,
            }
        };
        let asked = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
        match status.terminating_signal() {
            None => return status.exit_status().map(|code| code as u8).or(Some(0)),
            Some(signal) if asked.iter().any(|one| one.as_raw() == signal) => return Some(0),
            // One that fails at once is of no use where nobody waits for it.
            Some(_) if since.elapsed() < Duration::from_secs(1) => {
                std::thread::sleep(Duration::from_secs(1));
                if !mounts_live() {
                    return Some(0);
                }
            }
            Some(_) => {}
        }
    }
}

/// Whether a run of this user goes on, or a kernel mount, whose processes may ask again.
fn mounts_live() -> bool {
    let Ok((_, gate)) = open_base() else {
        return false;
    };
    let runs = runs(&entries(&gate).unwrap_or_default());
    let mut mounts = table::lines().into_iter().filter(Line::is_ours);
    let own = rustix::process::geteuid().as_raw();
    runs.iter().any(|name| is_held(&gate, &lock_of(name))) || mounts.any(|one| one.uid == own)
}

/// Where `mount` says `sync=auto` or `tls=yes`, sees to it that there is a service or a relay, and
/// names its socket.
pub fn ready(mount: &mut Mount) -> Result<(), Failure> {
    for leaf in mount.leaves_mut() {
        if leaf.driver != "plfs" {
            continue;
        }
        for (name, value) in &mut leaf.options {
            let kind = match (name.as_str(), value.as_slice()) {
                ("sync", b"auto") => Kind::Service,
                ("tls", b"yes") => Kind::Relay,
                _ => continue,
            };
            *value = start(kind)?.into_os_string().into_vec();
        }
    }
    Ok(())
}

/// Starts this user's service, or relay, unless there is one; its socket.
fn start(kind: Kind) -> Result<PathBuf, Failure> {
    let (name, word, what) = match kind {
        Kind::Service => (SOCKET, WORD, "service"),
        Kind::Relay => (RELAY, RELAY_WORD, "service's relay"),
    };
    let socket = base()?.join(name);
    if Listener::answers(&socket, kind) {
        return Ok(socket);
    }
    let failed = |error: io::Error| {
        let why = reason(&error);
        Failure::new(format!("cannot start the synchronisation {what}: {why}"))
            .advice("sync=no works without")
    };
    let output = Command::new(own_path().map_err(failed)?)
        .arg(word)
        .arg(&socket)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(failed)?;
    match output.status.success() {
        true => Ok(socket),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(Failure::told(told.trim_end()))
        }
    }
}
