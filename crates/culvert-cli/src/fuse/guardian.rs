//! The process that starts a server, outside of all programs, and is there as long as a run uses
//! it: it sends INIT and DESTROY, frees the slots of programs that die, and tells when the server
//! does.
//!
//! Each of its threads sleeps until something happens.

use super::{
    ADAPTER, DEVICE, DEVICE_PATH, HOST, adapter, again, dup2,
    ending::{PATIENCE, signal_children, until_gone},
    heirs::Heirs,
    left::{self, caller},
    lines::Lines,
    shared::{self, User},
    start::{Job, Restarts},
    terminal::{self, Question},
    watching::{raise_limit, watch},
    way::Way,
};
use crate::{
    failure::{Failure, reason, shown},
    own_path::own_path,
};
use culvert_run::files::c_string;
use culvert_slots::{Area, BELL, Client, GUARD, LARGEST, open_fifo, waiters};
use culvert_sys::raw::general::{SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP};
use culvert_sys::{OwnedFd, process, trust};
use culvert_wire::Plain;
use rustix::process::{WaitOptions, wait};
use std::{
    cell::Cell,
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

const INIT: u32 = 26;
const DESTROY: u32 = 38;

/// How often is looked for children of those that were killed.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the end of a run waits for what is to be told it of a server that has died.
const TELLING: Duration = Duration::from_secs(2);

/// A server that dies within this time after its start dies soon; so often in a row it is started
/// again.
const SOON: Duration = Duration::from_secs(10);
const HASTY: u32 = 5;
/// How often a server is started again in all: what is left of each that has died stays until its
/// runs end.
const MOST: u32 = 32;

unsafe extern "C" {
    /// fork(2) of the C library, which keeps its own books right.
    safe fn fork() -> i32;
}

/// What happens.
enum Event {
    /// INIT was answered.
    Init(Result<[u8; 64], culvert_sys::Errno>),
    /// The server is gone, and how.
    Gone(String),
    /// Who waits for it has gone.
    Alone,
    /// No program of any run that uses it is there any more.
    Over,
}

/// Becomes the guardian of `job`, a child that nobody waits for, and returns when its server is
/// ready; `lock` keeps the directory of the mount.
pub fn guard(job: &Job, lock: i32) -> Result<u8, Failure> {
    // The lock of the run among them, which all of its processes inherit.
    let lock_number = u32::try_from(lock).unwrap_or(u32::MAX);
    let _ = culvert_sys::fd::close_range(3, lock_number.saturating_sub(1), 0);
    let _ = culvert_sys::fd::close_range(lock_number.saturating_add(1), u32::MAX, 0);
    let failed =
        |error: io::Error| Failure::new(format!("cannot start its guardian: {}", reason(&error)));
    let (mut told, tell) = io::pipe().map_err(failed)?;
    match fork() {
        -1 => Err(failed(io::Error::last_os_error())),
        0 => {
            drop(told);
            if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&nothing);
            }
            match Guardian::new(job) {
                Ok((guardian, question, users)) => guardian.serve(tell, question, users),
                Err(why) => drop((&tell).write_all(why.as_bytes())),
            }
            Ok(0)
        }
        guardian => {
            drop(tell);
            terminal::hand_on_continue(guardian);
            let mut text = String::new();
            let _ = told.read_to_string(&mut text);
            match text.as_str() {
                READY => Ok(0),
                "" => Err(Failure::told("its guardian was killed")),
                why => {
                    println!("{why}");
                    Ok(1)
                }
            }
        }
    }
}

/// What happens to the runs that use the server.
type Users = (Sender<User>, Receiver<User>);

/// What the guardian tells when the server is ready.
const READY: &str = "ready";

struct Guardian<'a> {
    job: &'a Job,
    client: Arc<Client>,
    bell: Arc<OwnedFd>,
    lines: Lines,
    events: Receiver<Event>,
    sender: Sender<Event>,
    child: OwnedFd,
    /// Nobody writes lines any more.
    written: Receiver<()>,
    /// Says to who would join that the guardian is there.
    _guards: File,
    gone: Cell<bool>,
}

impl<'a> Guardian<'a> {
    /// Starts the server, which may ask at the terminal.
    fn new(job: &'a Job) -> Result<(Self, Question, Users), String> {
        let run = terminal::prepare();
        let waits = rustix::process::getppid();
        // Those of the terminal are for the programs. The server inherits that.
        for signal in [SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGPIPE] {
            let _ = process::set_ignored(signal, true);
        }
        let _ = process::set_name(c"culvert-fuse");
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let guards = shared::guards(&job.mount)
            .map_err(|error| format!("cannot lock its directory: {}", reason(&error)))?;
        let directory = c_string(job.mount.as_os_str().as_bytes());
        let cannot = |errno: culvert_sys::Errno| format!("cannot use the slots: {}", errno.text());
        let client = Client::open(&directory, None).map_err(cannot)?;
        let opened = trust::directory(&directory, trust::user()).map_err(|why| why.to_string())?;
        let bell = open_fifo(&opened, BELL).map_err(cannot)?;
        let guard = open_fifo(&opened, GUARD).map_err(cannot)?;
        let (sender, events) = mpsc::channel();
        let (client, bell, lines) = (Arc::new(client), Arc::new(bell), Lines::default());
        let (child, written) = spawn(job, &lines)?;
        // It watches each program by a descriptor; the server has the limit of who started it.
        raise_limit();
        let group = rustix::process::Pid::from_raw(child).ok_or("it has no number")?;
        let question = Question::watch(run, group);
        // Before anybody waits for it: its number means it until then.
        let process = process::pidfd_open(child as u32)
            .map_err(|errno| format!("cannot watch the server: {}", errno.text()))?;
        let area = client.clone();
        let reaper = sender.clone();
        thread::spawn(move || reap(child, area.area(), &reaper));
        let (ring, place) = (bell.clone(), directory.clone());
        let heirs = Heirs::new(client.clone(), ring, place);
        let users = mpsc::channel();
        let joined = users.0.clone();
        thread::spawn(move || watch(&guard, &heirs, &joined));
        let (init, asked) = (client.clone(), sender.clone());
        thread::spawn(move || {
            let _ = asked.send(Event::Init(initialise(&init)));
        });
        let waits = waits.map(|waits| waits.as_raw_nonzero().get() as u32);
        if let Some(Ok(waits)) = waits.map(process::pidfd_open) {
            let left = sender.clone();
            thread::spawn(move || {
                until_gone(&waits);
                let _ = left.send(Event::Alone);
            });
        }
        let guardian = Self {
            job,
            client,
            bell,
            lines,
            events,
            sender,
            child: process,
            written,
            _guards: guards,
            gone: Cell::new(false),
        };
        Ok((guardian, question, users))
    }

    fn name(&self) -> String {
        match self.job.command.get(1).is_some_and(|word| word == HOST) {
            true => "the host".into(),
            false => shown(self.job.command[0].as_os_str()),
        }
    }

    /// `what`, and the server's last lines, all of them.
    fn told(&self, what: &str) -> String {
        // A child of the server may still have the pipe.
        let _ = self.written.recv_timeout(Duration::from_millis(300));
        self.lines.below(what)
    }

    /// Sees to the server to its end.
    fn serve(self, mut tell: impl Write, question: Question, users: Users) {
        let told = match self.until_ready() {
            Ok(()) => READY.to_owned(),
            Err(why) => why,
        };
        drop(question);
        let ready = told == READY;
        let heard = tell.write_all(told.as_bytes()).is_ok();
        drop(tell);
        if !ready || !heard {
            silence();
            self.client.area().end(&*self.bell);
            self.stop();
            self.remove();
            return;
        }
        let (job, over) = (self.job.clone(), self.sender.clone());
        let client = self.client.clone();
        let (mount, entry) = (job.mount.clone(), job.entry.clone());
        let told = Arc::new(AtomicBool::new(false));
        let has_told = told.clone();
        thread::spawn(move || {
            let ended = Arc::new(move |run: &Path| {
                if run == job.run {
                    // Who waited for a server that has died may have ended by that at once.
                    let until = Instant::now() + TELLING;
                    let dies = || client.area().server_is_gone() && !has_told.load(SeqCst);
                    while dies() && Instant::now() < until {
                        thread::sleep(PAUSE / 10);
                    }
                    silence();
                }
                left::end_run(&client, &job.mount, run);
            });
            shared::until_unused(&mount, entry.as_deref(), &users, &ended);
            let _ = over.send(Event::Over);
        });
        let (mut lives, ready) = (true, Instant::now());
        while let Ok(event) = self.events.recv() {
            match event {
                Event::Over => break,
                Event::Init(_) | Event::Alone => {}
                // The last of its processes.
                Event::Gone(_) if !lives => {}
                Event::Gone(how) => {
                    lives = false;
                    self.client.area().end(&*self.bell);
                    self.wake_all();
                    let what = format!("culvert: {} of {}", self.name(), shown(&self.job.target));
                    let ends = format!("{what} {how}; its files cannot be used any more");
                    let _ = writeln!(io::stderr(), "{}", self.told(&ends));
                    told.store(true, SeqCst);
                    if let Some(restarts) = self.job.restart {
                        let told = match start_again(self.job, restarts, ready) {
                            Ok(()) => "was started again; what was open stays lost".into(),
                            Err(why) => format!("was not started again: {why}"),
                        };
                        let _ = writeln!(io::stderr(), "{what} {told}");
                    }
                }
            }
        }
        if lives {
            self.destroy();
            self.client.area().end(&*self.bell);
            self.stop();
        }
        self.remove();
    }

    /// Who waits for a file to become ready asks again, and is told that the server is gone
    /// (`end_polls`, fs/fuse/dev.c).
    fn wake_all(&self) {
        let directory = c_string(self.job.mount.as_os_str().as_bytes());
        if let Ok(directory) = trust::directory(&directory, trust::user()) {
            waiters::wake(&directory, None);
        }
    }

    fn until_ready(&self) -> Result<(), String> {
        let limit = self.job.start_timeout;
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Init(Ok(reply))) => {
                    self.client.area().begin(&reply);
                    return Ok(());
                }
                Ok(Event::Init(Err(errno))) => {
                    // Its end says more.
                    let what = match self.events.recv_timeout(Duration::from_millis(300)) {
                        Ok(Event::Gone(how)) => {
                            self.gone.set(true);
                            format!("{} {how}", self.name())
                        }
                        _ => format!("{} refuses INIT: {}", self.name(), errno.text()),
                    };
                    return Err(self.told(&what));
                }
                Ok(Event::Gone(how)) => {
                    self.gone.set(true);
                    let what = format!("{} {how} before it served", self.name());
                    return Err(self.told(&what));
                }
                Ok(Event::Alone) => return Err("nobody waits for it".into()),
                Ok(Event::Over) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let what = format!(
                        "{} has not answered INIT within {} s (start-timeout=)",
                        self.name(),
                        limit.as_secs_f64()
                    );
                    return Err(self.told(&what));
                }
            }
        }
    }

    /// Sends DESTROY, and waits for its answer.
    fn destroy(&self) {
        let (client, (done, waited)) = (self.client.clone(), mpsc::channel());
        thread::spawn(move || {
            let _ = client.request(caller(), DESTROY, 0, 0, &mut |_| Ok(()), &mut |_| Ok(()));
            let _ = done.send(());
        });
        let _ = waited.recv_timeout(PATIENCE);
    }

    /// Waits for the server's end, and makes it end.
    fn stop(&self) {
        if self.gone.get() {
            return;
        }
        for signal in [None, Some(SIGTERM), Some(SIGKILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            let until = Instant::now() + PATIENCE;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match self.events.recv_timeout(left.min(PAUSE)) {
                    Ok(Event::Gone(_)) => return,
                    Ok(_) => {}
                    Err(_) if left.is_zero() => break,
                    Err(_) if signal == Some(SIGKILL) => self.signal(SIGKILL),
                    Err(_) => {}
                }
            }
        }
    }

    /// Sends the server `signal`. Before one has read INIT each process that was started may be it.
    fn signal(&self, signal: u32) {
        let area = self.client.area();
        if area.server() == 0 {
            signal_children(signal);
        } else if let Some(server) = area.open_server() {
            let _ = process::pidfd_send_signal(&server, signal);
        }
        let _ = process::pidfd_send_signal(&self.child, signal);
    }

    fn remove(&self) {
        let directory = c_string(self.job.mount.as_os_str().as_bytes());
        culvert_launch::run_directory::remove(culvert_sys::fd::CWD, &directory);
    }
}

/// Starts the server of `job` again, which was ready at `ready`, unless it dies again and again.
fn start_again(job: &Job, before: Restarts, ready: Instant) -> Result<(), String> {
    let hasty = match ready.elapsed() < SOON {
        true => before.hasty + 1,
        false => 0,
    };
    let all = before.all + 1;
    match () {
        () if hasty > HASTY => Err(format!("it has died soon {hasty} times")),
        () if all > MOST => Err(format!("it was started again {MOST} times before")),
        () => again::start(job, Restarts { hasty, all }),
    }
}

/// Closes standard error: who reads the output of a run is not kept waiting.
fn silence() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// A description of its own of what stands for the device, which waits.
fn device(job: &Job) -> Result<OwnedFd, String> {
    let directory = c_string(job.mount.as_os_str().as_bytes());
    let opened = trust::directory(&directory, trust::user()).map_err(|why| why.to_string())?;
    let bell = open_fifo(&opened, BELL).and_then(|bell| {
        culvert_sys::fd::fcntl(&bell, culvert_sys::fd::Command::SETFL, 0)?;
        Ok(bell)
    });
    bell.map_err(|errno| format!("cannot open the device: {}", errno.text()))
}

/// Starts the server: what it writes goes to `lines`, and something comes when that is all.
fn spawn(job: &Job, lines: &Lines) -> Result<(i32, Receiver<()>), String> {
    let failed = |error: io::Error| {
        let name = shown(&job.command[0]);
        format!("cannot start {name}: {}", reason(&error))
    };
    let (from, into) = io::pipe().map_err(failed)?;
    let mut command = match job.way {
        Way::Adapter => {
            let mut command = Command::new(own_path().map_err(failed)?);
            command.arg(ADAPTER).arg(&job.mount).args(&job.command);
            command
        }
        Way::Slots | Way::WithoutRights => {
            let mut command = Command::new(&job.command[0]);
            command.args(&job.command[1..]);
            command
        }
    };
    command.stdin(Stdio::null());
    // What is sent to the group of a run is not for the server of others.
    command.process_group(0);
    command
        .stdout(into.try_clone().map_err(failed)?)
        .stderr(into);
    for (ours, its) in [
        ("CULVERT_AUDIT", "LD_AUDIT"),
        ("CULVERT_PRELOAD", "LD_PRELOAD"),
        ("CULVERT_SERVER", "CULVERT_RUN"),
    ] {
        command.env_remove(ours);
        if let Some(value) = std::env::var_os(ours) {
            command.env(its, value);
        }
    }
    let wants = |word: &OsString| word.to_string_lossy().contains(DEVICE_PATH);
    let device = match job.way != Way::Adapter && job.command.iter().any(wants) {
        true => Some(device(job)?),
        false => None,
    };
    let guardian = std::process::id();
    let without_rights = job.way == Way::WithoutRights;
    // SAFETY: system calls, which use nothing that another thread may hold.
    unsafe {
        command.pre_exec(move || {
            // Without its guardian nobody would end it. A fork clears that: the next run ends who
            // has left the foreground.
            let signal = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            terminal::release();
            if let Some(device) = &device
                && dup2(device.raw(), DEVICE) < 0
            {
                return Err(io::Error::last_os_error());
            }
            if without_rights {
                let given_up = adapter::give_up_new_rights();
                given_up.map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
            }
            match std::os::unix::process::parent_id() == guardian {
                true => Ok(()),
                false => Err(io::ErrorKind::Other.into()),
            }
        });
    }
    let child = command.spawn().map_err(failed)?;
    drop(command);
    let (lines, from) = (lines.clone(), File::from(std::os::fd::OwnedFd::from(from)));
    let (done, written) = mpsc::channel();
    thread::spawn(move || {
        lines.take(from);
        let _ = done.send(());
    });
    Ok((child.id() as i32, written))
}

/// Waits for children, to the end of the one that serves.
fn reap(child: i32, area: &Area, events: &Sender<Event>) {
    let mut last = String::from("has ended");
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) => {
                let how = match (status.exit_status(), status.terminating_signal()) {
                    (Some(status), _) => format!("has ended with status {status}"),
                    (_, Some(signal)) => format!("was ended by signal {signal}"),
                    _ => continue,
                };
                let process = process.as_raw_nonzero().get();
                let server = area.server() as i32;
                if process == child {
                    last.clone_from(&how);
                }
                if process == server {
                    let _ = events.send(Event::Gone(how));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(Event::Gone(last));
                return;
            }
        }
    }
}

/// Sends INIT: the body of the answer.
fn initialise(client: &Client) -> Result<[u8; 64], culvert_sys::Errno> {
    let request = culvert_client::capabilities::request(LARGEST, true);
    let request = request.bytes();
    let mut reply = [0; 64];
    let mut put = |payload: &culvert_slots::Payload<'_>| {
        payload.write(0, request);
        Ok(())
    };
    let mut take = |payload: &culvert_slots::Payload<'_>| match payload.len() {
        0..8 => Err(culvert_sys::Errno::EIO),
        _ => {
            payload.read(0, &mut reply);
            Ok(())
        }
    };
    client.request(caller(), INIT, 0, request.len(), &mut put, &mut take)?;
    Ok(reply)
}
