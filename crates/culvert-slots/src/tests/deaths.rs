//! Processes that are stopped or killed at each step of a request, while the server has not taken
//! it, has it in hand, or has answered it.
//!
//! A case is one process that makes a row of requests. It stops or kills itself at one step of one
//! of them. Where that matters the server takes nothing meanwhile, or keeps its reply back, so that
//! the state of the slot does not depend on who is faster.

extern crate std;
mod trial;
use super::*;
use crate::steps::Step;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use std::collections::HashMap;
use std::sync::Mutex;
use trial::Trial;

unsafe extern "C" {
    safe fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

const OPEN: u32 = 14;
/// The node of the requests that are counted; others are those of who looks on.
const NODE: u64 = 9;
const KILL: u32 = 9;
const CONTINUE: u32 = 18;
const STOP: u32 = 19;

/// Steps that are made in the closures of a request.
const FILLING: u32 = Step::Left as u32 + 1;
const TAKING: u32 = FILLING + 1;

/// What a process asks for, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Something is changed; the body's last word tells its parts apart.
    Change,
    Open,
    /// RELEASE of the file that was opened last, whose reply nobody waits for.
    Leave,
    Forget,
    /// RELEASE whose reply is waited for.
    Close,
    /// Something is changed, and the reply wanted later: by `End`.
    Begin,
    End,
    /// The same, and not wanted after all: `Abandon`.
    BeginInVain,
    Abandon,
}

const ROW: [Asks; 12] = [
    Asks::Change,
    Asks::Open,
    Asks::Change,
    Asks::Leave,
    Asks::Forget,
    Asks::Begin,
    Asks::Open,
    Asks::Close,
    Asks::End,
    Asks::BeginInVain,
    Asks::Open,
    Asks::Abandon,
];

impl Asks {
    /// It makes no request itself.
    const fn only_ends(self) -> bool {
        matches!(self, Self::End | Self::Abandon)
    }
}

// Words of the area, which all processes of the test see.
/// Which request of the row was answered, by its number: one word each.
const ANSWERED: usize = 0;
/// The identity of the process.
const WHO: usize = 16;
/// The server is to take nothing; and one of its threads is about to take.
const SHUT: usize = 17;
const TAKES: usize = 18;
/// Which request's reply is kept back.
const KEPT: usize = 19;

/// Where this process is to stop or to die, and with which signal; nowhere in the test's own.
static REQUEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static STEP: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicU32 = AtomicU32::new(0);
/// Which request of the row the process makes.
static MAKES: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn at(step: Step) {
    reached(step as u32);
}

fn reached(step: u32) {
    if step == STEP.load(Relaxed) && MAKES.load(Relaxed) == REQUEST.load(Relaxed) {
        // Once.
        STEP.store(0, Relaxed);
        let own = culvert_sys::process::getpid() as i32;
        let _ = culvert_sys::process::kill(own, SIGNAL.load(Relaxed));
    }
}

/// One process and its end.
#[derive(Clone, Copy, Debug)]
struct Case {
    number: u64,
    request: usize,
    step: u32,
    /// It is stopped first.
    stops: bool,
    /// It is killed; else it goes on.
    dies: bool,
    /// The server takes nothing while it is stopped, or until it is dead.
    shut: bool,
    /// The server keeps the reply back until it is asked for an INTERRUPT, or the process goes on.
    kept: bool,
}

impl Case {
    fn of(number: u64, seed: &mut u64) -> Self {
        let request = number as usize % ROW.len();
        // Some more of those whose request the server has.
        let step = match 1 + (number / ROW.len() as u64) as u32 % (TAKING + 3) {
            step @ 1..=TAKING => step,
            _ => Step::Rung as u32,
        };
        let dies = !mixed(seed).is_multiple_of(4);
        let stops = !dies || mixed(seed).is_multiple_of(2);
        // FORGET waits for the RELEASE before; what was begun may be answered already.
        let asks = ROW[request];
        let may_wait = asks == Asks::Forget || asks.only_ends();
        let is_before_reply = step <= Step::Rung as u32 && !may_wait;
        let shut = is_before_reply && mixed(seed).is_multiple_of(3);
        let is_sent = step == Step::Rung as u32 && !asks.only_ends();
        let kept = !shut && stops && is_sent && !mixed(seed).is_multiple_of(3);
        Self {
            number,
            request,
            step,
            stops,
            dies,
            shut,
            kept,
        }
    }

    fn id(&self, request: usize) -> u64 {
        self.number * ROW.len() as u64 + request as u64 + 1
    }
}

/// Of a reply that says that the request has failed.
const FAILED: &[u8] = b"failed";

/// Bytes of a change, which are written in two parts.
const CHANGE: usize = 6000;

/// The row of requests of a process: its exit status.
fn make(client: &Client, case: &Case) -> i32 {
    client.forked();
    let words = client.area().words();
    words[WHO].store(client.identity().0, SeqCst);
    STEP.store(case.step, Relaxed);
    REQUEST.store(case.request, Relaxed);
    SIGNAL.store(if case.stops { STOP } else { KILL }, Relaxed);
    let (mut handle, mut begun) = (0_u64, None);
    for (index, asks) in ROW.iter().enumerate() {
        let id = case.id(index);
        let is_it = index == case.request;
        if case.shut && is_it {
            words[SHUT].store(1, SeqCst);
            while words[TAKES].load(SeqCst) != 0 {
                core::hint::spin_loop();
            }
        }
        if case.kept && is_it {
            words[KEPT].store(id, SeqCst);
        }
        MAKES.store(index, Relaxed);
        let mut body = [id as u8; CHANGE];
        body[..8].copy_from_slice(&handle.to_ne_bytes());
        body[8..16].copy_from_slice(&id.to_ne_bytes());
        let (opcode, length) = match asks {
            Asks::Change | Asks::Begin | Asks::BeginInVain => (ECHO, CHANGE),
            Asks::End | Asks::Abandon => (ECHO, 0),
            Asks::Open => (OPEN, 16),
            Asks::Leave | Asks::Close => (RELEASE, 16),
            Asks::Forget => (FORGET, 16),
        };
        let nobody_waits = matches!(asks, Asks::Leave | Asks::Forget);
        let asked = match asks {
            _ if nobody_waits => loop {
                match client.send(caller(), opcode, NODE, &body[..length]) {
                    Err(Errno::EAGAIN) => {}
                    sent => break sent,
                }
            },
            Asks::Begin | Asks::BeginInVain => {
                let made = Channel::begin(client, caller(), opcode, NODE, &body[..length]);
                begun = made.ok();
                made.map(drop)
            }
            Asks::End => begun.map_or(Err(Errno::ENOENT), |begun| {
                Channel::end(client, begun, false, &mut |payload| {
                    reached(TAKING);
                    let is_whole = payload.len() == CHANGE;
                    is_whole.then_some(()).ok_or(Errno::EBADMSG)
                })
            }),
            Asks::Abandon => {
                begun.into_iter().for_each(|begun| client.abandon(begun));
                Ok(())
            }
            _ => client.call(
                caller(),
                opcode,
                NODE,
                length,
                &mut |payload| {
                    let (first, rest) = body[..length].split_at(length / 2);
                    payload.write(0, first);
                    reached(FILLING);
                    payload.write(first.len(), rest);
                    Ok(())
                },
                &mut |payload| {
                    let mut first = [0; 8];
                    payload.read(0, &mut first);
                    reached(TAKING);
                    if *asks == Asks::Open {
                        handle = u64::from_ne_bytes(first);
                        client.opened(&open_file(NODE, handle));
                    }
                    if *asks == Asks::Change && payload.len() != CHANGE {
                        return Err(Errno::EBADMSG);
                    }
                    Ok(())
                },
            ),
        };
        match asked {
            Ok(()) => words[ANSWERED + index].store(id, SeqCst),
            // The reply was kept back, and then an error.
            Err(Errno::EINTR) if case.kept && is_it => {}
            Err(Errno::EINTR) if case.kept && ROW[case.request] == Asks::Begin => {}
            Err(_) => return 3,
        }
    }
    MAKES.store(ROW.len(), Relaxed);
    // The last file is still open.
    let body = [handle.to_ne_bytes(), (case.id(0) + (1 << 40)).to_ne_bytes()].concat();
    let sent = client.send(caller(), RELEASE, NODE, &body);
    if sent.is_ok() { 0 } else { 4 }
}

/// Who closes what a process has left.
struct Closer<'a>(&'a Client, &'a AtomicU64);

impl Heir for Closer<'_> {
    fn opened(&self, opcode: u32, node: u64, answer: &Payload<'_>) -> Option<OpenFile> {
        let mut handle = [0; 8];
        answer.read(0, &mut handle);
        (opcode == OPEN).then(|| open_file(node, u64::from_ne_bytes(handle)))
    }

    fn release(&self, file: &OpenFile) {
        let id = self.1.fetch_add(1, Relaxed);
        let body = [file.handle.to_ne_bytes(), id.to_ne_bytes()].concat();
        while self.0.send(caller(), RELEASE, NODE, &body) == Err(Errno::EAGAIN) {
            thread::yield_now();
        }
    }
}

const STOPPED: i32 = 0x7f;

/// How process `number` has ended, or that it is stopped (wait(2)).
fn wait_for(number: i32) -> i32 {
    const WUNTRACED: i32 = 2;
    let mut status = 0;
    // SAFETY: a word of this function's.
    let waited = unsafe { waitpid(number, &raw mut status, WUNTRACED) };
    assert_eq!(waited, number);
    status
}

/// Waits until it `is` so. Nothing but a defect makes this long.
fn until(what: &str, case: &Case, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{what}: {case:?}"
        );
        thread::yield_now();
    }
}

/// What the cases have come to.
#[derive(Debug, Default)]
struct Counts {
    killed: u64,
    stopped: u64,
    /// Cases in which somebody may have waited for the next look ([`crate::client::TICK`]).
    slow: u64,
    /// For the requests of who looks on.
    seed: u64,
    /// Deaths by the state of the slot.
    states: HashMap<&'static str, u64>,
}

/// Plays `case`, and looks whether all is as if the process had never been there.
fn play(trial: &Trial, victims: &Client, closer: &Closer<'_>, case: &Case, counts: &mut Counts) {
    for index in (0..=KEPT).filter(|&index| index != TAKES) {
        trial.word(index).store(0, SeqCst);
    }
    let child = fork();
    if child == 0 {
        culvert_sys::process::exit_group(make(victims, case));
    }
    let area = trial.server.area();
    let mut status = wait_for(child);
    let is_stopped = status & 0xff == STOPPED;
    if is_stopped {
        counts.stopped += 1;
        if !case.shut {
            // Others go on.
            for _ in 0..3 {
                ask(closer.0, &mut counts.seed).unwrap();
            }
        }
        let id = case.id(case.request);
        let is_sent = case.step == Step::Rung as u32 && !ROW[case.request].only_ends();
        if case.kept && is_sent && ROW[case.request] != Asks::Forget {
            until("it is in hand", case, || {
                trial.done.lock().unwrap().kept.is_some()
            });
        } else if is_sent && !case.shut {
            let is_done = || trial.done.lock().unwrap().times.contains_key(&id);
            until("it is done", case, is_done);
        }
        if case.dies {
            culvert_sys::process::kill(child, KILL).unwrap();
        } else {
            trial.unshut();
            trial.reply_kept();
            culvert_sys::process::kill(child, CONTINUE).unwrap();
        }
        status = wait_for(child);
    }
    let is_killed = status & 0x7f == KILL as i32;
    assert!(is_killed || status == 0, "{status:#x}: {case:?}");
    let dead = trial.word(WHO).load(SeqCst);
    if is_killed {
        counts.killed += 1;
        let owner = |index: usize| Identity(area.slot(index).owner.load(SeqCst));
        for index in (0..SLOTS).filter(|&index| owner(index).process().0 == dead) {
            let state = Word(area.slot(index).word.load(SeqCst)).state();
            let name = match state {
                _ if owner(index).is_spare() => "begun",
                Some(State::Posted) => "posted",
                Some(State::Taken) => "taken",
                Some(State::Done) => "done",
                _ => "free",
            };
            *counts.states.entry(name).or_default() += 1;
        }
    }
    // As who finds no free slot, before the guardian.
    if case.number.is_multiple_of(3) {
        area.free_of_the_dead(true, Identity::is_gone);
    }
    // As the guardian does.
    area.free_orphans();
    closer.0.bury(dead, closer);
    // Of a RELEASE no INTERRUPT is asked for.
    trial.reply_kept();
    trial.unshut();
    let is_left = || {
        let owners = (0..SLOTS).map(|index| area.slot(index).owner.load(SeqCst));
        let is_dead = |owner: u64| Identity(owner).process().0 == dead;
        let left = |owner: u64| is_dead(owner) || Identity(owner).is_orphan();
        closer.0.has_left(dead) || owners.into_iter().any(left)
    };
    until("slots are free", case, || !is_left());
    let done = trial.done.lock().unwrap();
    assert!(done.open.is_empty(), "{:?} stay open: {case:?}", done.open);
    for (index, asks) in ROW.iter().enumerate() {
        let times = done.times.get(&case.id(index)).copied().unwrap_or(0);
        let answered = trial.word(ANSWERED + index).load(SeqCst) != 0;
        match *asks {
            asks if asks.only_ends() => continue,
            // It may have been taken back.
            Asks::BeginInVain => continue,
            // Answered is what was waited for.
            Asks::Begin => {
                let end = ROW.iter().position(|asks| *asks == Asks::End).unwrap();
                let answered = trial.word(ANSWERED + end).load(SeqCst) != 0;
                assert!(times == 1 || !answered && is_killed, "{case:?}");
                continue;
            }
            _ => {}
        }
        assert!(
            times == 1 || !answered && is_killed,
            "{index} is lost: {case:?}"
        );
    }
}

/// What a count is when there is nothing to watch any more.
pub(super) const OVER: u64 = u64::MAX - 1;

/// How many cases there were.
static PLAYED: AtomicU64 = AtomicU64::new(0);

/// Ends the tests where `count` stays the same for minutes, before it is [`OVER`]: a wait without
/// end.
pub(super) fn watch(count: &'static AtomicU64) {
    thread::spawn(|| {
        let mut last = (u64::MAX, Instant::now());
        while count.load(Relaxed) != OVER {
            let now = count.load(Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            }
            if last.1.elapsed() > Duration::from_secs(90) {
                std::eprintln!("case {now} has no end");
                process::abort();
            }
            thread::sleep(Duration::from_secs(1));
        }
    });
}

#[test]
fn who_is_killed_or_stopped_at_any_step_holds_nobody_up_and_leaves_nothing() {
    let place = Place::new("deaths");
    let (server, bell) = place.server();
    let trial = Trial {
        server,
        bell,
        over: AtomicBool::new(false),
        done: Mutex::default(),
    };
    let deaths = env::var("CULVERT_SLOT_DEATHS").map_or(2000, |deaths| deaths.parse().unwrap());
    watch(&PLAYED);
    let (victims, guardian) = (place.client(), place.client());
    let ids = AtomicU64::new(1 << 50);
    let mut counts = Counts::default();
    thread::scope(|scope| {
        let serving: [_; 2] = core::array::from_fn(|_| scope.spawn(|| trial.serve()));
        let (mut number, mut seed) = (0, 5);
        while counts.killed < deaths {
            let case = Case::of(number, &mut seed);
            let began = Instant::now();
            play(
                &trial,
                &victims,
                &Closer(&guardian, &ids),
                &case,
                &mut counts,
            );
            counts.slow += u64::from(began.elapsed() > Duration::from_millis(800));
            number += 1;
            PLAYED.store(number, Relaxed);
        }
        PLAYED.store(OVER, Relaxed);
        trial.over.store(true, SeqCst);
        for thread in serving {
            thread.join().unwrap();
        }
        assert_eq!(free_slots(trial.server.area()), SLOTS);
    });
    std::eprintln!("{counts:?}");
    for state in ["free", "posted", "taken", "done", "begun"] {
        assert!(
            counts
                .states
                .get(state)
                .is_some_and(|&times| times > deaths / 100),
            "{state}"
        );
    }
}
