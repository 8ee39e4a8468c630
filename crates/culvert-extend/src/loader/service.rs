//! The service: looks at requests, and loads.

use super::{
    Allowed, Peer, SOCKET,
    kernel::{Kernel, Own},
    message::{Received, Reply},
    mounts, peer,
};
use crate::{
    bpf::{MapKind, RING, is_array},
    loaded::{Loaded, kinds},
    module::Device,
    object::Object,
};
use rustix::net::{
    self, AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// How long an asker may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many requests of a user are looked at at once.
const AT_ONCE: usize = 4;
/// What the kernel has for an entry of a hash beside key and value, at most.
const OVERHEAD: u64 = 80;

/// What each user may have at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Programs, one for each mount.
    pub programs: usize,
    /// Bytes of their maps.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            programs: 16,
            memory: 256 << 20,
        }
    }
}

/// The loader service.
pub struct Service {
    allowed: Allowed,
    limits: Limits,
    kernel: Box<dyn Kernel>,
    /// Requests that are looked at, of each user.
    busy: Mutex<HashMap<u32, usize>>,
    /// What a user has is counted, and more is made, by one at a time.
    counting: Mutex<()>,
    /// How long an asker may take for its request.
    pub(super) patience: Duration,
}

impl Service {
    /// One that allows these objects.
    ///
    /// # Errors
    /// There is no module, or no privilege; for people.
    pub fn new(allowed: Allowed, limits: Limits) -> Result<Self, String> {
        Device::open().map_err(|error| error.to_string())?;
        Ok(Self::with(allowed, limits, Box::new(Own)))
    }

    pub(super) fn with(allowed: Allowed, limits: Limits, kernel: Box<dyn Kernel>) -> Self {
        Self {
            allowed,
            limits,
            kernel,
            busy: Mutex::default(),
            counting: Mutex::default(),
            patience: PATIENCE,
        }
    }

    /// Serves at [`SOCKET`], or at the socket that a service manager has passed, until the process
    /// ends. `say` is told of each request.
    ///
    /// # Errors
    /// There is a service already, the socket cannot be made.
    pub fn serve(self, say: fn(&str)) -> io::Result<()> {
        let listener = match inherited() {
            Some(listener) => listener,
            None => listen(Path::new(SOCKET))?,
        };
        say(&format!("serving at {SOCKET}"));
        let service = Arc::new(self);
        loop {
            match net::accept_with(&listener, SocketFlags::CLOEXEC) {
                Ok(connection) => service.begin(connection, say),
                // No descriptors or memory are left: some will be given back.
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    thread::sleep(Duration::from_millis(100));
                }
                Err(rustix::io::Errno::BADF | rustix::io::Errno::INVAL) => {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Err(_) => {}
            }
        }
    }

    /// A thread answers it: closing a descriptor that came may take as long as its sender likes.
    pub(super) fn begin(self: &Arc<Self>, connection: OwnedFd, say: fn(&str)) {
        let Ok(peer) = peer(&connection) else { return };
        {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            let count = busy.entry(peer.uid).or_default();
            if *count == AT_ONCE {
                // Who closes what is not read has the answer thrown away. Its descriptor does not
                // come along.
                let _ = net::recv(&connection, &mut [0; 1], RecvFlags::DONTWAIT);
                let _ = Reply::Refused("too many requests at once".into()).send(&connection, &[]);
                return;
            }
            *count += 1;
        }
        let service = Arc::clone(self);
        let answer = move || {
            let line = service.answer(&connection, peer);
            say(&line);
            service.done(peer.uid);
        };
        // Without a thread there is no answer, and the mount goes on without.
        if thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(answer)
            .is_err()
        {
            self.done(peer.uid);
        }
    }

    /// A request of this user is looked at no longer.
    fn done(&self, user: u32) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = busy.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&user);
            }
        }
    }

    /// Answers what comes by the connection; what is said of it.
    pub(super) fn answer(&self, connection: &OwnedFd, peer: Peer) -> String {
        for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            let _ = sockopt::set_socket_timeout(connection, which, Some(self.patience));
        }
        let user = format!("user {}, process {}", peer.uid, peer.pid);
        let (request, descriptors) = match Received::receive(connection) {
            Ok(came) => came,
            Err(error) => return format!("{user}: no request: {error}"),
        };
        let done = match (request, &descriptors[..]) {
            (Some(request), [fuse]) => self.load(&request, fuse.as_fd(), peer),
            (None, _) => Err("the request is none of this version".into()),
            (_, others) => Err(format!("{} descriptors came, not one", others.len())),
        };
        let (said, sent) = match done {
            Ok((sum, loaded)) => {
                let mut all = vec![loaded.attached.as_fd()];
                all.extend(loaded.maps.iter().map(AsFd::as_fd));
                (
                    format!("{user}: {sum}"),
                    Reply::Loaded.send(connection, &all),
                )
            }
            Err(why) => (
                format!("{user}: refused: {why}"),
                Reply::Refused(why).send(connection, &[]),
            ),
        };
        match sent {
            Ok(()) => said,
            Err(error) => format!("{said}: not answered: {error}"),
        }
    }

    /// Loads what was asked for; the object's sum.
    fn load(
        &self,
        request: &Received,
        fuse: BorrowedFd<'_>,
        peer: Peer,
    ) -> Result<(String, Loaded), String> {
        let sum = self.allowed.check(&request.object)?;
        let object = Object::read(&request.object).ok_or("it is no object of an extension")?;
        let wanted = memory(&kinds(&object, &request.entries)?);
        let wanted = wanted.ok_or("the maps are too large")?;
        let owner = self.kernel.owner(fuse)?;
        if owner.uid != peer.uid {
            return Err("the connection is another user's".into());
        }
        self.check_mounts(peer, owner.device)?;
        let name = format!("cv_{}", peer.uid);
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        let (programs, memory) = self.kernel.used(&name)?;
        if programs >= self.limits.programs {
            return Err(format!("the user has {programs} programs already"));
        }
        if memory
            .checked_add(wanted)
            .is_none_or(|all| all > self.limits.memory)
        {
            let [all, more, most] = [memory, wanted, self.limits.memory].map(|bytes| bytes >> 10);
            return Err(format!(
                "the user has {all} KiB of tables and wants {more} more, of {most}: extend_entries="
            ));
        }
        let loaded = self.kernel.load(&object, &request.entries, (fuse, &name))?;
        Ok((sum, loaded))
    }

    /// The mount is one of those that users may make, wherever it is seen.
    fn check_mounts(&self, peer: Peer, device: (u32, u32)) -> Result<(), String> {
        if peer.pid == 0 {
            return Err("the process is in another namespace".into());
        }
        let [theirs, ours] = self.kernel.mounts(peer)?;
        let ours = mounts::are_harmless(&ours, device).unwrap_or(true);
        match mounts::are_harmless(&theirs, device) {
            Some(true) if ours => Ok(()),
            None => Err("the process does not see the mount".into()),
            _ => Err("the mount is not nosuid and nodev".into()),
        }
    }
}

/// Bytes of maps, at least what the kernel will have for them.
fn memory(kinds: &[MapKind]) -> Option<u64> {
    let mut all = 0_u64;
    for kind in kinds {
        let [key, value] =
            [kind.key_size, kind.value_size].map(|size| u64::from(size).div_ceil(8) * 8);
        let each = match kind.kind {
            RING => 1,
            array if is_array(array) => value,
            _ => key + value + OVERHEAD,
        };
        let bytes = each
            .checked_mul(u64::from(kind.max_entries))?
            .checked_add(8192)?;
        all = all.checked_add(bytes)?;
    }
    Some(all)
}

/// The socket that systemd has passed (sd_listen_fds(3)).
fn inherited() -> Option<OwnedFd> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let ours = number("LISTEN_PID")? == std::process::id() && number("LISTEN_FDS")? == 1;
    // SAFETY: whoever set the variables has opened it for this process, and nobody else here uses
    // it.
    ours.then(|| unsafe { OwnedFd::from_raw_fd(3) })
}

/// A socket of this name, which everybody may connect to; one that a service has left is replaced.
fn listen(place: &Path) -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let address = SocketAddrUnix::new(place)?;
    if let Some(directory) = place.parent() {
        fs::create_dir_all(directory)?;
    }
    match net::connect(&socket, &address) {
        Ok(()) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(place)?,
        Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    net::bind(&socket, &address)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o666))?;
    net::listen(&socket, 64)?;
    Ok(socket)
}
