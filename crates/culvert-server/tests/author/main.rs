//! A program of a driver's author, whose maps the driver changes while the kernel asks it. Where
//! the module culvert-fuse-ext is: tests/kernel/run brings these tests into guests.

use culvert::path::{PathAdapter, PathEntry, PathFileSystem};
use culvert::{Attributes, Caller, Errno, FileKind, OpenFlags, Result};
use culvert_server::mounting::{MountPoint, Mounting};
use culvert_server::{Program, Settings, serve};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// extensions/example/example.bpf.c
const EXAMPLE: &[u8] = include_bytes!("../../../../extensions/example/example.o");
const NOBODY: u32 = 65534;

/// How often it was asked for a planet.
static ASKED: AtomicUsize = AtomicUsize::new(0);

struct Planets;

impl PathFileSystem for Planets {
    type Handle = ();

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        match path {
            b"" => Ok(Attributes::new(FileKind::Directory, 0o555)),
            b"mars" | b"venus" => {
                ASKED.fetch_add(1, SeqCst);
                Ok(Attributes::new(FileKind::Regular, 0o444))
            }
            _ => Err(Errno::ENOENT.into()),
        }
    }

    fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
        let names = ["mars", "venus"];
        let entries = names.map(|name| PathEntry::new(name, FileKind::Regular));
        Ok(entries.into())
    }

    fn open(&self, _: &Caller<'_>, _: &[u8], _: OpenFlags) -> Result<()> {
        Ok(())
    }

    fn read(&self, _: &(), _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }
}

/// Whether these tests are for this machine; in a guest they are.
fn has_module() -> bool {
    let has = Path::new("/dev/culvert-fuse-ext").exists();
    assert!(has || std::env::var_os("CULVERT_MODULE").is_none());
    has
}

/// A key of the map `hidden`.
fn name(name: &str) -> [u8; 64] {
    let mut key = [0; 64];
    key[..name.len()].copy_from_slice(name.as_bytes());
    key
}

/// A mount of the planets, until it is dropped.
struct Mount {
    place: PathBuf,
    server: Option<thread::JoinHandle<std::result::Result<(), String>>>,
}

impl Mount {
    fn new(which: &str, program: Option<Program>) -> Self {
        let place = std::env::temp_dir().join(format!("culvert-author-{which}"));
        std::fs::create_dir_all(&place).expect("a directory");
        let (told, hears) = mpsc::channel();
        let at = place.clone();
        let server = thread::spawn(move || {
            let point = MountPoint::open(&at).expect("a place");
            let mut mounting = Mounting::new("planets", &point);
            mounting.rights.allow_other = true;
            let settings = Settings {
                valid: Some(Duration::ZERO),
                absent: Some(Duration::ZERO),
                program: program.map(Arc::new),
                ..Settings::default()
            };
            let planets = Box::new(PathAdapter::new(Planets));
            serve(planets, &mounting, settings, |_| {
                told.send(()).expect("somebody waits")
            })
        });
        hears.recv().expect("a mount");
        Self {
            place,
            server: Some(server),
        }
    }

    fn has(&self, user: u32, name: &str) -> bool {
        succeeds(user, "stat", &self.place.join(name))
    }

    /// Whether a user is shown what there is.
    fn is_opened(&self, user: u32) -> bool {
        succeeds(user, "ls", &self.place)
    }
}

fn succeeds(user: u32, command: &str, path: &Path) -> bool {
    let mut command = Command::new(command);
    let command = command.arg(path).uid(user).gid(user);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("a command").success()
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.place).status();
        if let Some(Ok(served)) = self.server.take().map(thread::JoinHandle::join) {
            assert_eq!(served, Ok(()));
        }
        let _ = std::fs::remove_dir(&self.place);
    }
}

#[test]
fn driver_and_program_change_the_same_maps() {
    if !has_module() {
        return;
    }
    let program = Program::load(EXAMPLE, &[("hidden", 4)]).expect("a program");
    let hidden = program.map("hidden").expect("a map");
    let looks = program.map("looks").expect("a map");
    assert!(program.map("none").is_none());
    let mount = Mount::new("maps", Some(program));
    assert!(mount.has(NOBODY, "mars") && mount.has(0, "mars"));
    hidden
        .put(&name("mars"), &1_u32.to_ne_bytes())
        .expect("room");
    let asked = ASKED.load(SeqCst);
    assert!(!mount.has(NOBODY, "mars"));
    assert_eq!(ASKED.load(SeqCst), asked, "the server heard of it");
    assert!(mount.has(0, "mars") && mount.has(NOBODY, "venus"));
    let found = hidden.get(&name("mars")).expect("a map");
    assert_eq!(found.as_deref(), Some(&1_u32.to_ne_bytes()[..]));
    assert_eq!(hidden.keys().expect("a map"), [name("mars")]);
    assert!(hidden.remove(&name("mars")).expect("a map"));
    assert!(!hidden.remove(&name("mars")).expect("a map"));
    assert_eq!(hidden.get(&name("mars")).expect("a map"), None);
    assert!(mount.has(NOBODY, "mars"));
    // What the program wrote, and goes on with when the driver has changed it.
    let count = || {
        let value = looks
            .get(&NOBODY.to_ne_bytes())
            .expect("a map")
            .expect("a count");
        u64::from_ne_bytes(value.try_into().expect("8 bytes"))
    };
    assert!(count() >= 4);
    let thousand = 1000_u64.to_ne_bytes();
    looks.put(&NOBODY.to_ne_bytes(), &thousand).expect("room");
    assert!(mount.has(NOBODY, "mars") && count() > 1000);
    // A map has as many places as was asked for; one that forgets has them, too.
    for number in 0..4 {
        let key = name(&number.to_string());
        hidden.put(&key, &[0; 4]).expect("room");
    }
    let full = hidden.put(&name("4"), &[0; 4]).expect_err("it is full");
    assert_eq!(full.raw_os_error(), Some(Errno::E2BIG.raw()));
    assert!(hidden.put(b"short", &[0; 4]).is_err() && hidden.get(b"short").is_err());
    for user in 0..5000_u32 {
        looks
            .put(&user.to_ne_bytes(), &[0; 8])
            .expect("it forgets another one");
    }
    assert!(looks.keys().expect("a map").len() <= 1024);
    assert!(looks.memory().expect("a number") >= 1024 * 12);
    assert!(mount.has(NOBODY, "mars"));
}

/// Which nodes are closed the driver says and the kernel alone knows.
#[test]
fn a_map_of_nodes_is_not_read_by_the_driver() {
    if !has_module() {
        return;
    }
    const ROOT: [u8; 8] = 1_u64.to_ne_bytes();
    let program = Program::load(EXAMPLE, &[("closed", 64)]).expect("a program");
    let closed = program.map("closed").expect("a map");
    let mount = Mount::new("nodes", Some(program));
    assert!(mount.is_opened(NOBODY) && mount.is_opened(0));
    closed.put(&ROOT, &[0; 4]).expect("room");
    assert!(!mount.is_opened(NOBODY) && mount.is_opened(0));
    let refused = [closed.get(&ROOT).map(drop), closed.keys().map(drop)];
    for refused in refused {
        let error = refused.expect_err("it may not be read");
        assert_eq!(error.raw_os_error(), Some(Errno::EPERM.raw()));
    }
    assert!(closed.remove(&ROOT).expect("a map"));
    assert!(mount.is_opened(NOBODY));
    // As many as there is room for: what was used longest ago goes.
    for node in 1..1000_u64 {
        closed.put(&node.to_ne_bytes(), &[0; 4]).expect("room");
    }
    assert!(mount.is_opened(NOBODY));
    assert!(closed.memory().expect("a number") < 64 << 10);
}

#[test]
fn what_the_kernel_refuses_is_told_and_the_mount_goes_on() {
    if !has_module() {
        return;
    }
    assert!(Program::load(b"nothing", &[]).is_err());
    let unknown = Program::load(EXAMPLE, &[("none", 4)]).expect_err("no such map");
    assert_eq!(unknown, "there is no map none, but hidden, looks, closed");
    // The last instruction is the end of the program: one that goes on (r0 = 0) in its place.
    let end = [0x95, 0, 0, 0, 0, 0, 0, 0];
    let mut bad = EXAMPLE.to_vec();
    let at = bad
        .windows(8)
        .rposition(|bytes| bytes == end)
        .expect("an end");
    bad[at] = 0xb7;
    let refused = Program::load(&bad, &[]).expect_err("it does not end");
    // And what the verifier says, in its own words.
    let rest = refused.strip_prefix("Invalid argument (os error 22): ");
    assert!(rest.is_some_and(|rest| rest.len() > 5), "{refused}");
    let mount = Mount::new("refused", None);
    assert!(mount.has(NOBODY, "mars"));
}
