//! The process that writes a log: takes records from the FIFO and adds lines to the file.

use crate::{action::actions, config::Config, json, loggedfs::Lines, paths::Paths};
use culvert_drivers::log::{
    dropped_path,
    record::{LONGEST, Record, What},
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, OpenOptionsExt},
    },
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
    pipe: File,
    file: File,
    format: Format,
    config: Config,
    lines: Lines,
    paths: Paths,
    programs: HashMap<u32, Vec<u8>>,
    /// Where it is counted what did not fit in the pipe, and how much of that was told.
    dropped: File,
    told: u64,
    /// Lines that could not be written.
    lost: u64,
    /// Nobody uses the mount any more.
    ended: Arc<AtomicBool>,
    /// The last line may not be whole.
    torn: bool,
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
        let pipe = rustix::fs::open(&job.pipe, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|error| failed(&job.pipe, &io::Error::from(error)))?;
        let dropped = dropped_path(job.pipe.as_os_str().as_bytes());
        let dropped = Path::new(OsStr::from_bytes(&dropped));
        let dropped = File::open(dropped).map_err(|error| failed(dropped, &error))?;
        // A smaller one drops more.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, ROOM);
        Ok(Self {
            pipe,
            file,
            format: job.format,
            lines: Lines {
                target: job.target.clone(),
                without_names: config.without_names,
            },
            config,
            paths: Paths::default(),
            programs: HashMap::new(),
            dropped,
            told: 0,
            lost: 0,
            ended: Arc::default(),
            torn: false,
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
        let mut room = vec![0; ROOM + LONGEST];
        let mut filled = 0;
        loop {
            // Waits for the first record, without any other wake-up.
            match self.pipe.read(&mut room[filled..]) {
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("the pipe of the log: {error}")),
            }
            let (used, ended) = self.take(&room[..filled]);
            room.copy_within(used..filled, 0);
            filled -= used;
            if ended {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Writes the lines of the records in `bytes`; how many bytes these were, and whether the last
    /// one has come.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let (mut used, mut out, mut ended) = (0, Vec::new(), false);
        while let Some((record, length)) = Record::decode(&bytes[used..]) {
            used += length;
            // Others might say so, too.
            ended |= record.what == What::End && self.ended.load(SeqCst);
            self.add(&record, &mut out);
        }
        if Record::is_none(&bytes[used..]) {
            // A program of the run has written to the pipe itself. What follows begins anywhere.
            used = bytes.len();
            self.lost += 1;
            ended |= self.ended.load(SeqCst);
        }
        self.gap(&mut out);
        self.put(&out);
        (used, ended)
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
        let mut word = [0; 8];
        let read = self.dropped.read_at(&mut word, 0);
        let all = match read {
            Ok(8) => u64::from_ne_bytes(word),
            _ => self.told,
        };
        let dropped = all.saturating_sub(self.told);
        let lost = std::mem::take(&mut self.lost);
        self.told = all;
        if dropped == 0 && lost == 0 {
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as u64);
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
