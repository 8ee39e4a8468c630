//! A driver and what its kernel knows of it: what requests are answered from.

use crate::{
    attributes::Numbers,
    cache_retention::CacheRetention,
    capabilities,
    channel::Channel,
    groups::Permitted,
    handles::Handles,
    handover::{Evidence, RequestSlot},
    identity::Identity,
    interrupts::{Hand, Interrupts},
    locks::Locks,
    mapped_writers::MappedWriters,
    notifications::{self, Notifications},
    opened::{OpenDirectory, OpenFile},
    passthrough::Backings,
    settings::Settings,
    zero_open::ZeroOpen,
};
use culvert::{FileSystem, Layered, Observed, Observer, Validity};
use culvert_extend::{Extension, Paths, module::Attached};
use culvert_wire::{Protocol, structures::InHeader};
use std::sync::{Arc, atomic::AtomicBool};

/// A driver and its connection with a kernel.
pub struct Session {
    pub(crate) filesystem: Box<dyn FileSystem>,
    pub(crate) settings: Settings,
    pub(crate) numbers: Numbers,
    pub(crate) validity: Validity,
    /// The driver acts by the kernel's calls, which judge by the thread's user.
    pub(crate) acts: bool,
    pub(crate) protocol: Protocol,
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<OpenDirectory>,
    pub(crate) backings: Backings,
    pub(crate) mapped_writers: MappedWriters,
    pub(crate) cache_retention: CacheRetention,
    pub(crate) zero_open: ZeroOpen,
    pub(crate) notifications: Option<Arc<Notifications>>,
    /// The driver is asked whether its files are ready.
    pub(crate) polls: bool,
    pub(crate) observed: Observed,
    /// The kernel is told of what the driver observes.
    pub(crate) tells: AtomicBool,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) locks: Arc<Locks>,
    /// What answers inside the kernel.
    pub(crate) extension: Option<Extension>,
    /// The same of an author's.
    pub(crate) program: Option<Attached>,
    /// The paths that this one is told.
    pub(crate) paths: Option<Paths>,
    /// Which of the connection's it is, from 1; 0: there is one only.
    pub(crate) server: u32,
    /// It was said what was in hand when the connection ended.
    pub(crate) abandoned: AtomicBool,
}

/// What is told of changes, from before anything is agreed on: a driver that tells lets its answers
/// be believed for longer.
pub(crate) struct Watching {
    pub notifications: Option<Arc<Notifications>>,
    pub observed: Observed,
}

impl Watching {
    /// `filesystem` begins to tell.
    pub fn begin(filesystem: &dyn FileSystem) -> Self {
        let notifications = Notifications::new().ok().map(Arc::new);
        let observed = notifications
            .as_ref()
            .map_or(Observed::Never, |notifications| {
                filesystem.observe(Arc::clone(notifications) as Arc<dyn Observer>)
            });
        Self {
            notifications,
            observed,
        }
    }
}

/// A request that is being answered.
pub(crate) struct Context<'a> {
    /// Who asks, of which node.
    pub header: InHeader,
    pub identity: &'a mut Identity,
    pub channel: &'a dyn Channel,
    /// Tells whether the request is interrupted.
    pub hand: &'a Hand,
    /// The caller's group that decides about set-group-ID.
    pub groups: Vec<u32>,
    /// Where it stands what is being done, where another server may go on with it.
    pub slot: Option<RequestSlot>,
    /// The request was begun by a server that is dead, which saw this first.
    pub evidence: Option<Evidence>,
    /// Another thread will answer it.
    pub left: bool,
}

impl Context<'_> {
    /// The request, as the hand-over names it; 0: it has no slot there.
    pub fn unique(&self) -> u64 {
        self.slot.map_or(0, RequestSlot::unique)
    }
}

impl Session {
    pub(crate) fn new(
        filesystem: Box<dyn FileSystem>,
        settings: Settings,
        protocol: Protocol,
        validity: Validity,
        Watching {
            notifications,
            observed,
        }: Watching,
    ) -> Self {
        let can = filesystem.capabilities();
        let tells = notifications::tells(observed, protocol.minor);
        let locks = Arc::new(Locks::of(settings.handover));
        let server = settings.handover.begin();
        let polls = can.polls && !settings.without(capabilities::POLL);
        Self {
            notifications: notifications.filter(|_| polls || observed != Observed::Never),
            polls,
            observed,
            tells: AtomicBool::new(tells),
            numbers: Numbers::new(filesystem.root()),
            validity,
            acts: can.checks_permissions,
            filesystem: match can.checks_permissions {
                true => Box::new(Layered(Permitted(filesystem))),
                false => filesystem,
            },
            settings,
            protocol,
            files: Handles::new(server),
            directories: Handles::new(server),
            server,
            extension: None,
            program: None,
            paths: None,
            backings: Backings::default(),
            mapped_writers: MappedWriters::default(),
            cache_retention: CacheRetention::default(),
            zero_open: ZeroOpen::default(),
            interrupts: Arc::new(Interrupts::new()),
            locks,
            abandoned: AtomicBool::new(false),
        }
    }

    /// What was agreed on.
    pub const fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Leaves what is open to the next server: to drop the session would close it, while the
    /// hand-over says that it is open.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}
