//! Servers of others, as they come: those that take `/dev/fd/N` for a mount point (libfuse 3.3 and
//! later) believe a socket there to be the device.

use crate::{
    channel::{End, Line},
    conformance::Scratch,
};
use culvert::{
    Caller, DirectoryEntry, FileSystem, Node, OpenFlags, Opened, SetAttributes, testing::caller,
};
use culvert_client::{FuseFs, Settings};
use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

/// A pair of sockets that keep messages apart.
fn pair() -> (OwnedFd, OwnedFd) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a pair of sockets")
}

/// A server in a process of its own.
struct Server {
    line: Arc<Line>,
    child: Child,
    others: Vec<Child>,
}

/// The largest body: sockets take messages of 212992 bytes as they are set (socket(7)).
const LARGEST: usize = (128 << 10) + 4096;

impl Server {
    /// `command`, in which `%m` is the mount point.
    fn start(command: &[&str], prepare: impl FnOnce(&mut Command), others: Vec<Child>) -> Self {
        let (ours, theirs) = pair();
        let number = theirs.as_raw_fd();
        let point = format!("/dev/fd/{number}");
        let mut starts = Command::new(command[0]);
        starts.args(command[1..].iter().map(|word| word.replace("%m", &point)));
        prepare(&mut starts);
        // SAFETY: fcntl(2) alone, between fork and exec.
        unsafe {
            starts.pre_exec(move || {
                let kept = rustix::fd::BorrowedFd::borrow_raw(number);
                rustix::io::fcntl_setfd(kept, rustix::io::FdFlags::empty())?;
                Ok(())
            });
        }
        let child = starts.spawn().expect("the server is installed");
        drop(theirs);
        let reader = std::fs::File::from(ours);
        let writer = reader.try_clone().expect("a descriptor");
        let send = move |bytes: &[u8]| match (&writer).write(bytes)? {
            count if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        };
        let line = Line::new(Box::new(send), LARGEST, true);
        let to = Arc::clone(&line);
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while let Ok(length @ 1..) = (&reader).read(&mut buffer) {
                to.receive(&buffer[..length]);
            }
            to.ended();
        });
        line.begin();
        Self {
            line,
            child,
            others,
        }
    }

    fn client(&self) -> FuseFs {
        let settings = Settings {
            default_permissions: true,
            ..Settings::default()
        };
        let end = End(Arc::clone(&self.line));
        FuseFs::new(Box::new(end), settings).expect("a version in common")
    }

    /// sshfs without ssh: it speaks with an SFTP server by its standard streams.
    fn sshfs(scratch: &Scratch) -> Self {
        let (one, other) = pair_of_streams();
        let (to, from) = (one.try_clone().expect("a descriptor"), one);
        let sftp = Command::new("/usr/lib/openssh/sftp-server")
            .stdin(Stdio::from(to))
            .stdout(Stdio::from(from))
            .spawn()
            .expect("openssh-sftp-server is installed");
        let source = format!(":{}", scratch.0.display());
        let command = [
            "sshfs",
            &source,
            "%m",
            "-f",
            "-o",
            "passive",
            "-o",
            "dir_cache=no",
        ];
        let streams = |command: &mut Command| {
            let again = other.try_clone().expect("a descriptor");
            command.stdin(Stdio::from(other)).stdout(Stdio::from(again));
        };
        Self::start(&command, streams, vec![sftp])
    }
}

fn pair_of_streams() -> (OwnedFd, OwnedFd) {
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    (one.into(), other.into())
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.child).chain(&mut self.others) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn names(filesystem: &dyn FileSystem, dir: Node) -> Vec<String> {
    let mut names = Vec::new();
    let mut sink = |entry: DirectoryEntry<'_>| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    };
    filesystem
        .read_directory(&caller(), dir, 0, &mut sink)
        .expect("it can be listed");
    names.sort();
    names
}

fn driven(opened: Opened) -> Box<dyn culvert::File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("a driver of its own"),
    }
}

#[test]
fn sshfs_answers_without_a_kernel() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.0.join("dir")).expect("a directory");
    let bytes: Vec<u8> = (0..400_000_u32).map(|byte| byte as u8).collect();
    std::fs::write(scratch.0.join("dir/data"), &bytes).expect("a file");
    let server = Server::sshfs(&scratch);
    let client = server.client();
    let who: &Caller<'_> = &caller();
    assert_eq!(names(&client, client.root()), ["dir"]);
    let dir = client.lookup(who, client.root(), b"dir").expect("is there");
    let dir = dir.attributes.node;
    let data = client.lookup(who, dir, b"data").expect("is there");
    assert_eq!(data.attributes.size, 400_000);
    let opened = client.open(who, data.attributes.node, OpenFlags::READ);
    let file = driven(opened.expect("it opens"));
    let mut read = vec![0; 500_000];
    let count = file.read_at(0, &mut &mut read[..]).expect("it is read");
    assert_eq!((count, &read[..count]), (bytes.len(), &bytes[..]));
    drop(file);
    let missing = client.lookup(who, dir, b"missing").map(|_| ());
    assert_eq!(
        missing.expect_err("it is not there").errno(),
        culvert::Errno::ENOENT
    );
    let (made, opened) = client
        .create(who, dir, b"new", OpenFlags::READ_WRITE, 0o640)
        .expect("it can be made");
    let file = driven(opened);
    let written = file.write_at(0, &mut &bytes[..]).expect("it is written");
    assert_eq!(written, bytes.len());
    file.flush().expect("it is flushed");
    let after = file.attributes(who).expect("it has attributes");
    assert_eq!((after.size, after.permissions), (400_000, 0o640));
    drop(file);
    let cut = SetAttributes {
        size: Some(10),
        ..SetAttributes::default()
    };
    client
        .set_attributes(who, made.attributes.node, &cut)
        .expect("it can be cut");
    client
        .rename(
            who,
            (dir, b"new"),
            (client.root(), b"moved"),
            Default::default(),
        )
        .expect("it can be renamed");
    let moved = std::fs::read(scratch.0.join("moved")).expect("it is there");
    assert_eq!(moved, bytes[..10]);
    client.mkdir(who, dir, b"sub", 0o755).expect("a directory");
    client
        .symlink(who, dir, b"link", b"../moved")
        .expect("a link");
    assert_eq!(names(&client, dir), ["data", "link", "sub"]);
    client.rmdir(who, dir, b"sub").expect("it is empty");
    client.unlink(who, dir, b"link").expect("it is removed");
    assert_eq!(names(&client, dir), ["data"]);
}
