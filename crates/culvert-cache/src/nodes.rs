//! What this process maps so that it can be written, or may become so.

use super::OpenFile;
use super::records::Record;
use super::regions::{Region, Regions, Watch};
use crate::shadow::OwnedFd;
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_run::task;
use culvert_run::{self as run, ShadowName};
use culvert_sys::PAGE;
use culvert_sys::sync::{AtomicRef, Mutex, MutexGuard};

/// A node that this process maps.
pub struct Node {
    /// Its name.
    pub name: ShadowName,
    /// The file as it was open when it was mapped: it keeps those rights, and the file, after the
    /// program has closed it.
    pub open: Arc<dyn OpenFile>,
    /// Where the number of a descriptor of the shadow stands; none where there is no number for it.
    shadow: Option<&'static AtomicI32>,
    /// What says in the run that it can be written; null: it cannot.
    pub(super) record: AtomicRef<Record>,
    /// What could not be written back, to be tried again.
    pub(super) failed: Mutex<Vec<(u64, u64)>>,
    /// Its descriptors are another process's, too.
    pub(super) lent: AtomicBool,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(place) = self.shadow {
            let fd = place.swap(-1, AcqRel);
            if fd >= 0 {
                run::get()
                    .posix_locks
                    .close(self.name, OwnedFd::from_raw(fd));
            }
        }
    }
}

/// A region of this process.
pub type Mapped = Region<Arc<Node>>;

pub(super) struct State {
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) regions: Regions<Arc<Node>>,
}

pub(super) static STATE: Mutex<State> = Mutex::new(State {
    nodes: Vec::new(),
    regions: Regions::new(),
});
static ANY: AtomicBool = AtomicBool::new(false);

/// Held while mappings change, as the kernel holds its own lock: taken before all others.
pub(super) static CHANGES: Mutex<()> = Mutex::new(());

/// Keeps other threads from changing what is mapped.
pub fn changing() -> MutexGuard<'static, ()> {
    CHANGES.lock()
}

/// Held from the question what was stored until it is written back: taken after [`changing`].
pub(super) static FLUSHING: Mutex<()> = Mutex::new(());

/// Keeps other threads from asking what was stored.
pub fn flushing() -> MutexGuard<'static, ()> {
    FLUSHING.lock()
}

/// Whether this process maps anything that is known here.
#[inline]
pub fn any() -> bool {
    ANY.load(Relaxed)
}

/// The descriptor of the shadow of `name` that is kept open here, as long as the node is.
pub fn open(name: ShadowName) -> Option<(Arc<Node>, i32)> {
    if !any() || task::vfork_child().is_some() {
        return None;
    }
    let node = find(name)?;
    let fd = node.shadow?.load(Relaxed);
    (fd >= 0).then_some((node, fd))
}

/// The node of `name`, if it is mapped here.
pub fn find(name: ShadowName) -> Option<Arc<Node>> {
    if !any() {
        return None;
    }
    let state = STATE.lock();
    state.nodes.iter().find(|node| node.name == name).cloned()
}

/// The node of `open`, which is about to be mapped through it; its shadow is open in `shadow`.
pub fn enter(open: Arc<dyn OpenFile>, shadow: Option<OwnedFd>) -> Arc<Node> {
    let name = open.name();
    if let Some(known) = find(name) {
        return known;
    }
    let node = Arc::new(Node {
        name,
        open,
        shadow: shadow.and_then(|own| run::get().keep_shadow(name, own)),
        record: AtomicRef::new(),
        failed: Mutex::new(Vec::new()),
        lent: AtomicBool::new(false),
    });
    STATE.lock().nodes.push(node.clone());
    ANY.store(true, Relaxed);
    node
}

/// Adds a region.
pub fn insert(region: Mapped) {
    STATE.lock().regions.insert(region);
}

/// What of the program's addresses from `start` on is known here.
pub fn between(start: usize, length: usize) -> Vec<Mapped> {
    if !any() {
        return Vec::new();
    }
    let end = start.saturating_add(pages(length));
    STATE.lock().regions.between(start, end)
}

/// Calls `run` with all regions, some at a time: a copy of all that a process may have (65,530)
/// could be more than there is memory for.
pub fn in_parts(mut run: impl FnMut(Vec<Mapped>)) {
    const PART: usize = 512;
    let mut at = 0;
    loop {
        let part: Vec<Mapped> = {
            let state = STATE.lock();
            state.regions.from(at).take(PART).cloned().collect()
        };
        let Some(last) = part.last() else { return };
        at = last.end;
        run(part);
    }
}

/// Forgets what is unmapped from `start` on, and returns it.
pub fn take(start: usize, length: usize) -> Vec<Mapped> {
    let end = start.saturating_add(pages(length));
    STATE.lock().regions.take(start, end)
}

pub(super) fn set_watch(part: &Mapped, watch: Watch) {
    STATE
        .lock()
        .regions
        .change(part.start, part.end, |region| region.watch = watch);
}

/// `length` in whole pages, as the kernel takes it.
pub fn pages(length: usize) -> usize {
    length.checked_next_multiple_of(4096).unwrap_or(usize::MAX)
}

/// Nodes that nothing is stored into any more, and that have bytes which could not be written back:
/// whoever asks for their files to be written tries again. Under a filter, which may forbid that,
/// none.
pub fn owing() -> Vec<Arc<Node>> {
    if task::is_confined() {
        return Vec::new();
    }
    let state = STATE.lock();
    let stored = |node: &Arc<Node>| {
        let mut all = state.regions.all();
        all.any(|region| region.written && Arc::ptr_eq(&region.of, node))
    };
    let owes = |node: &&Arc<Node>| !node.failed.lock().is_empty() && !stored(node);
    state.nodes.iter().filter(owes).cloned().collect()
}

/// Gives up nodes that owe nothing any more, unless another thread changes what is mapped: then it
/// does.
pub fn release_paid() {
    if let Some(_changing) = CHANGES.try_lock() {
        release();
    }
}

/// Nodes of which nothing is mapped any more are given up: after what was stored has been written
/// back. Under [`changing`].
pub fn release() {
    let gone: Vec<Arc<Node>> = {
        let mut state = STATE.lock();
        let State { nodes, regions } = &mut *state;
        let unused = |node: &Arc<Node>| {
            // What could not be written back is tried again at fsync(2) and close(2), which must
            // not say that it is in the file.
            node.failed.lock().is_empty()
                && regions.all().all(|region| !Arc::ptr_eq(&region.of, node))
        };
        let mut gone = Vec::new();
        nodes.retain(|node| {
            let gone_now = unused(node);
            if gone_now {
                gone.push(node.clone());
            }
            !gone_now
        });
        ANY.store(!nodes.is_empty(), Relaxed);
        gone
    };
    for node in gone {
        if task::is_confined() || node.lent.load(Relaxed) {
            // Closing what it has open may end the program, or is not ours alone to do.
            core::mem::forget(node.clone());
        }
        if let Some(record) = node.take_record() {
            record.free();
        }
    }
}

/// This process ends, or becomes another program, and has written everything back: nobody needs to
/// look at its records. Only where no other thread can have stored anything since.
pub fn give_up_records() {
    let nodes = STATE.lock().nodes.clone();
    for node in nodes {
        if node.failed.lock().is_empty()
            && let Some(record) = node.take_record()
        {
            record.free();
        }
    }
}

/// This process, which has one thread, ends and has written everything back: what it maps keeps no
/// file open any more. What could not be written back keeps its own.
pub fn let_go() {
    let mut gone = Vec::new();
    {
        let mut state = STATE.lock();
        let State { nodes, .. } = &mut *state;
        nodes.retain(|node| {
            let paid = node.failed.lock().is_empty() && !node.lent.load(Relaxed);
            if paid {
                gone.push(node.clone());
            }
            !paid
        });
        state.regions = Regions::new();
    }
    drop(gone);
}

/// Whether the program has kept mappings that are known here from its children (madvise(2),
/// MADV_DONTFORK).
pub(super) static SOME_STAY: AtomicBool = AtomicBool::new(false);

/// Children will not have all that is known here.
pub fn some_stay() {
    SOME_STAY.store(true, Relaxed);
}

/// Whether something is mapped at every address of the range.
pub fn is_there(start: usize, length: usize) -> bool {
    culvert_sys::memory::ask(start, length) != Err(Errno::ENOMEM)
}

/// The parts of a range of whole pages where something is mapped: where each begins, and its
/// length.
pub fn what_is_there(start: usize, length: usize) -> Vec<(usize, usize)> {
    if is_there(start, length) {
        return alloc::vec![(start, length)];
    }
    let page = culvert_sys::PAGE;
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for at in (start..start.saturating_add(length)).step_by(page) {
        match parts.last_mut() {
            _ if !is_there(at, page) => {}
            Some((from, length)) if *from + *length == at => *length += page,
            _ => parts.push((at, page)),
        }
    }
    parts
}

/// Forgets what this child of a fork has not got.
pub(super) fn forget_what_stayed() {
    in_parts(|part| {
        let there = |region: &Mapped| is_there(region.start, region.end - region.start);
        for region in part.into_iter().filter(|region| !there(region)) {
            let pages = (region.start..region.end).step_by(PAGE);
            for page in pages.filter(|&page| !is_there(page, PAGE)) {
                take(page, PAGE);
            }
        }
    });
}

/// A child is about to be made that has this process's table of descriptors and a copy of its
/// memory: neither closes what both use.
pub fn lend() {
    super::pinned::lend();
    let state = STATE.lock();
    let nodes = state.nodes.iter();
    nodes.for_each(|node| node.lent.store(true, Relaxed));
}
