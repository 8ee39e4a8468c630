//! How a union begins: its branches are opened, and what they can do is what it can.

use super::ROOT;
use super::beliefs::Beliefs;
use super::branch::Branch;
use super::branches::{Drivers, Opener, Wanted};
use super::control::Control;
use super::filesystem::UnionFs;
use super::looks::Looks;
use super::moves::Moves;
use super::nodes::Nodes;
use super::options::{Settings, modes};
use super::state::{Core, Shared};
use crate::Environment;
use crate::name_changes::NameChanges;
use alloc::{format, sync::Arc, vec::Vec};
use culvert::{Capabilities, Errno, Error, Node, Result, mount::Mount};
use culvert_sys::{process, sync::OnceCell};

/// The right to change names of the mount with the `number`.
fn names(number: u64, environment: &Environment<'_>) -> NameChanges {
    let directory = environment.run_directory.filter(|_| !environment.alone);
    let path = directory.map(|run| [run, format!("/union-{number:x}.lock").as_bytes()].concat());
    NameChanges::new(path.as_deref(), environment.keeper)
}

impl UnionFs {
    /// The union that `mount` is.
    pub fn new(
        mount: &Mount,
        environment: &Environment<'_>,
        drivers: &'static Drivers,
    ) -> Result<Self> {
        let settings = Settings::parse(mount)?;
        let each = mount.branches.iter().zip(modes(mount)?);
        let wanted: Vec<_> = each
            .map(|(mount, how)| Wanted {
                mount: mount.clone(),
                how,
            })
            .collect();
        // Whatever becomes of its branches.
        let root = |branch: &Mount| super::number(branch, Node(1)).0;
        let salts = mount.branches.iter();
        let salts = salts.fold(0, |sum, branch| super::branch::mix(sum ^ root(branch)));
        let number = salts ^ crate::sorted_names::hash(&mount.target);
        let names = names(number, environment);
        let opener = Opener::new(mount, environment, drivers);
        let changes = names.count();
        let first = (settings, wanted);
        let control = Control::new((number, changes), environment, opener, first)?;
        let branches = control.branches();
        let capabilities = capabilities(&branches, mount.read_only(), environment.alone)?;
        let nodes = Nodes::new(ROOT, &branches, environment.keeper, !environment.alone);
        let union = Self(Arc::new(Shared {
            nodes,
            control,
            capabilities,
            target: mount.target.clone(),
            names,
            looks: Looks::default(),
            beliefs: Beliefs::new(),
            modes_decide: OnceCell::new(),
            moves: Moves::new(number, environment),
            at_once: environment.at_once,
            keeper: environment.keeper,
            elevates: environment.alone && process::geteuid() == 0,
        }));
        // Those of the server before.
        if environment.alone && !union.0.capabilities.read_only {
            Core::now(&union.0).finish_renames();
        }
        Ok(union)
    }
}

/// What the union of `branches` can do.
fn capabilities(branches: &[Branch], read_only: bool, alone: bool) -> Result<Capabilities> {
    let can = |each: fn(Capabilities) -> bool| {
        let mut all = branches.iter().map(|branch| each(branch.fs.capabilities()));
        (all.clone().all(|can| can), all.any(|can| can))
    };
    // What only reads needs no more than to be asked.
    let checks =
        can(|can| can.checks_permissions || can.read_only).0 && can(|can| can.checks_permissions).1;
    if alone && !checks && can(|can| can.checks_permissions).1 && process::geteuid() == 0 {
        // What others make on a directory would be the superuser's.
        return Err(Error::because(
            Errno::EINVAL,
            "a kernel mount of root's cannot write to directories at once with file systems that \
            judge rights by themselves (memory, bind)",
        ));
    }
    Ok(Capabilities {
        read_only: read_only || can(|can| can.read_only).0,
        case_insensitive: can(|can| can.case_insensitive).1,
        immutable: false,
        xattrs: can(|can| can.xattrs).1,
        hard_links: can(|can| can.hard_links).1,
        checks_permissions: checks,
        transient_nodes: true,
        access_time_lags: can(|can| can.access_time_lags).1,
        size_at_sync: can(|can| can.size_at_sync).1,
        locks: can(|can| can.locks).0,
        polls: can(|can| can.polls).1,
        // A file is moved to another directory while others write it (`moveonenospc`).
        parallel_writes: false,
        waits: can(|can| can.waits).1,
    })
}
