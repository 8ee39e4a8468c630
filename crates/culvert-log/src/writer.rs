//! The process that writes a log: takes records from the FIFO and the ring, and adds lines to the
//! file.
//!
//! ```text
//! asleep --a record by the FIFO--> awake: every 5 ms both are read --nothing came--> asleep
//! ```

use crate::{action::actions, config::Config, json, loggedfs::Lines, paths::Paths};
use culvert_drivers::log::{
    record::{LONGEST, Record, What},
    ring::{Reader, Ring, padded},
    ring_path,
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::{
    collections::HashMap,
    ffi::{CString, OsStr},
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, SystemTime},
};

/// What a pipe may hold of an ordinary user's, bytes.
const ROOM: usize = 1 << 20;
/// How long the writer sleeps after it has written: so a busy program is not held up by waking it
/// for each record.
const PAUSE: Duration = Duration::from_millis(5);
/// How often the lock on the log is tried.
const TRIES: usize = 20;
/// As many programs' names are remembered.
const PROGRAMS: usize = 65536;

/// The form of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object each.
    Json,
    /// As LoggedFS has them.
    LoggedFs,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub struct Job {
    /// The FIFO that records come by.
    pub pipe: PathBuf,
    /// The file that lines are added to.
    pub file: PathBuf,
    /// Their form.
    pub format: Format,
    /// Which actions: a configuration of LoggedFS.
    pub config: Option<PathBuf>,
    /// Where the mount is.
    pub target: Vec<u8>,
}

/// A job that can begin.
pub struct Writer {
    /// The FIFO, to wait for a record, and to see what there is.
    pipe: File,
    pending: File,
    ring: Reader,
    file: File,
    format: Format,
    config: Config,
    lines: Lines,
    paths: Paths,
    programs: HashMap<u32, Vec<u8>>,
    /// How much was told of what did not fit.
    told: u64,
    /// Lines that could not be written.
    lost: u64,
    /// Nobody uses the mount any more.
    ended: Arc<AtomicBool>,
    /// The last line may not be whole.
    torn: bool,
    /// Records that are for the next look.
    late: Vec<u8>,
}

impl Writer {
    /// Opens what `job` needs. The reason, with the path, where that fails.
    pub fn open(job: &Job) -> Result<Self, String> {
        let failed =
            |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let config = match &job.config {
            Some(path) => Config::read(path).map_err(|why| failed(path, &why))?,
            None => Config::default(),
        };
        let file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&job.file)
            .map_err(|error| failed(&job.file, &error))?;
        let is_regular = file.metadata().is_ok_and(|found| found.is_file());
        if !is_regular {
            return Err(failed(&job.file, &"no regular file"));
        }
        // Who waits for the log takes this lock, and gives it back at once.
        for _ in 0..TRIES {
            if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                break;
            }
            thread::sleep(PAUSE);
        }
        let fifo = |more: OFlags| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | more;
            let opened = rustix::fs::open(&job.pipe, flags, Mode::empty()).map(File::from);
            opened.map_err(|error| failed(&job.pipe, &io::Error::from(error)))
        };
        let (pipe, pending) = (fifo(OFlags::empty())?, fifo(OFlags::NONBLOCK)?);
        let ring = ring_path(job.pipe.as_os_str().as_bytes());
        let path = Path::new(OsStr::from_bytes(&ring)).to_owned();
        let ring = CString::new(ring).map_err(|error| failed(&path, &error))?;
        let ring = Ring::open(&ring).map_err(|error| failed(&path, &error))?;
        // A smaller one drops more.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, ROOM);
        Ok(Self {
            pipe,
            pending,
            ring: Reader::new(ring),
            file,
            format: job.format,
            lines: Lines {
                target: job.target.clone(),
                without_names: config.without_names,
            },
            config,
            paths: Paths::default(),
            programs: HashMap::new(),
            told: 0,
            lost: 0,
            ended: Arc::default(),
            torn: false,
            late: Vec::new(),
        })
    }

    /// Writes until `over` returns, which waits until nobody uses the mount any more.
    pub fn write(mut self, over: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let mut end = self.pipe.try_clone().map_err(|error| error.to_string())?;
        let ended = Arc::clone(&self.ended);
        thread::spawn(move || {
            over();
            ended.store(true, SeqCst);
            let record = Record::new(What::End, culvert::Node(0));
            let mut room = [0; 256];
            // As long as the pipe is full it is being read.
            while end.write_all(record.encode(&mut room)).is_err() {
                thread::sleep(PAUSE);
            }
        });
        let (mut room, mut filled, mut ring) = (vec![0; ROOM + LONGEST], 0, Vec::new());
        loop {
            // Waits for the first record, without any other wake-up.
            filled += read(&self.pipe, &mut room[filled..])?;
            self.ring.wake();
            let mut before = 0;
            loop {
                filled += read(&self.pending, &mut room[filled..])?;
                let looked = now();
                self.take_from_ring(&mut ring);
                // What was sent before that by the FIFO is there by now.
                filled += read(&self.pending, &mut room[filled..])?;
                let is_quiet = filled == before && ring.is_empty() && self.late.is_empty();
                let (used, ended) = self.take(&room[..filled], &ring, looked);
                room.copy_within(used..filled, 0);
                filled -= used;
                before = filled;
                if ended {
                    // All were sent before the last one, some perhaps after that look.
                    self.take_from_ring(&mut ring);
                    self.take(&[], &ring, u64::MAX);
                    return Ok(());
                }
                if is_quiet && self.ring.sleep() {
                    break;
                }
                thread::sleep(PAUSE);
                self.ring.mend(is_dead);
            }
        }
    }

    /// Has in `out` what has come into the ring.
    fn take_from_ring(&mut self, out: &mut Vec<u8>) {
        out.clear();
        if !self.ring.take(out) {
            self.lost += 1;
        }
    }

    /// Writes the lines of the records in `pipe`, which may end within one, and in `ring`; how many
    /// bytes of the first these were, and whether the last record has come. What ended after the
    /// look at the ring, at `looked`, is for the next one: its sender may have sent by the ring
    /// before it.
    fn take(&mut self, pipe: &[u8], ring: &[u8], looked: u64) -> (usize, bool) {
        let late = std::mem::take(&mut self.late);
        let mut all = Vec::new();
        records(&late, padded, &mut all);
        let kept = all.len();
        let (used, good) = records(pipe, |length| length, &mut all);
        let piped = all.len();
        let (read, all_good) = records(ring, padded, &mut all);
        let is_end = |record: &Record<'_>| record.what == What::End;
        // Others might say so, too.
        let ended = (!good || all.iter().any(is_end)) && self.ended.load(SeqCst);
        let from = [kept, piped - kept, all.len() - piped];
        let when = |record: &Record<'_>| record.began.saturating_add(record.took);
        if !ended {
            // Once only, whatever the clock does.
            for record in all.split_off(kept) {
                match when(&record) > looked {
                    true => self.keep(&record),
                    false => all.push(record),
                }
            }
        }
        if from.iter().filter(|count| **count > 0).count() > 1 {
            // As they ended; of one sender they are in order already.
            all.sort_by_key(when);
        }
        // A program of the run has written there itself. What follows begins anywhere.
        let all_good = all_good && read == ring.len();
        self.lost += [good, all_good].iter().filter(|good| !**good).count() as u64;
        let mut out = Vec::new();
        for record in &all {
            self.add(record, &mut out);
        }
        self.gap(&mut out);
        self.put(&out);
        (used, ended)
    }

    /// Keeps `record` for the next look.
    fn keep(&mut self, record: &Record<'_>) {
        let at = self.late.len();
        self.late.resize(at + padded(record.length()), 0);
        record.encode(&mut self.late[at..]);
    }

    fn put(&mut self, out: &[u8]) {
        if out.is_empty() {
            return;
        }
        // What a failure has left of a line ends here.
        let torn = if self.torn { &b"\n"[..] } else { b"" };
        let written = self.file.write_all(&[torn, out].concat());
        self.torn = written.is_err();
        if written.is_err() {
            self.lost += out.iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
    }

    fn add(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let pid = record.caller.0;
        match record.what {
            What::Process => self.name(pid, record.name.to_vec()),
            What::Forked => {
                let parent = record.numbers[0] as u32;
                let name = self.programs.get(&parent).cloned().unwrap_or_default();
                self.name(pid, name);
            }
            _ => {}
        }
        // The path that it had before, and has after.
        let all = actions(record, &self.paths);
        self.paths.learn(record);
        let program = self.program(pid);
        for action in &all {
            let whole = self.lines.whole(&action.path);
            let whole = String::from_utf8_lossy(&whole);
            let failed = record.errno != 0;
            if !self
                .config
                .wants(&whole, record.caller.1, action.word, failed)
            {
                continue;
            }
            match self.format {
                Format::LoggedFs => self.lines.add(action, record, &program, out),
                Format::Json => {
                    json::add(action, record, &program, out);
                    // One line for all changes of a call.
                    break;
                }
            }
        }
    }

    /// Says what is missing since it was said last.
    fn gap(&mut self, out: &mut Vec<u8>) {
        let all = self.ring.dropped();
        let dropped = all.saturating_sub(self.told);
        let lost = std::mem::take(&mut self.lost);
        self.told = all;
        if dropped == 0 && lost == 0 {
            return;
        }
        let now = now();
        match self.format {
            Format::Json => json::gap(now, dropped, lost, out),
            Format::LoggedFs => {
                let text =
                    format!("not logged: {dropped} operations that did not fit, {lost} lines");
                Lines::note(now, &text, out);
            }
        }
    }

    fn name(&mut self, pid: u32, name: Vec<u8>) {
        if self.programs.len() >= PROGRAMS {
            self.programs.clear();
        }
        self.programs.insert(pid, name);
    }

    /// The program of process `pid`: as it said itself, or, of who uses a mount of the kernel's, as
    /// proc(5) says.
    fn program(&mut self, pid: u32) -> Vec<u8> {
        if let Some(name) = self.programs.get(&pid) {
            return name.clone();
        }
        let read = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let name = read
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec();
        self.name(pid, name.clone());
        name
    }
}

/// The time, nanoseconds since the epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// What is there to be read in `file`.
fn read(mut file: &File, room: &mut [u8]) -> Result<usize, String> {
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            done => return done.map_err(|error| format!("the pipe of the log: {error}")),
        }
    }
}

/// Adds the records in `bytes`, each as long as `length` makes of its own, to `all`: how many bytes
/// these were, and whether what follows may become a record.
fn records<'b>(
    bytes: &'b [u8],
    length: impl Fn(usize) -> usize,
    all: &mut Vec<Record<'b>>,
) -> (usize, bool) {
    let mut used = 0;
    while let Some((record, own)) = Record::decode(&bytes[used..]) {
        all.push(record);
        used = (used + length(own)).min(bytes.len());
    }
    match Record::is_none(&bytes[used..]) {
        true => (bytes.len(), false),
        false => (used, true),
    }
}

/// Whether there is no process `pid`, or one that only waits to be reaped. (Its first thread alone
/// may have ended: then there are others.)
fn is_dead(pid: u32) -> bool {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else {
        return !Path::new(&format!("/proc/{pid}")).exists();
    };
    let name = stat.iter().rposition(|&byte| byte == b')');
    let state = name.and_then(|end| stat.get(end + 2));
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    matches!(state, Some(b'Z' | b'X')) && threads() <= 1
}
