//! What closing a descriptor of the program's does to its record locks
//! ([`culvert_run::posix_locks`]).

use super::DescriptorTable;
use crate::description::{Description, Object};
use alloc::{sync::Arc, vec::Vec};
use culvert::File as _;
use culvert_cache::{pinned, shadow::open_shadow};
use culvert_run::ShadowName;

impl Description {
    /// The driver's own descriptor, where the program's are of that file and of no shadow.
    pub fn own_file(&self) -> Option<i32> {
        match &self.object {
            Object::File(file) if self.is_direct() => file.descriptor(),
            _ => None,
        }
    }
}

impl DescriptorTable {
    /// Before exec: what would be closed there, and drop locks that the next program is to have,
    /// stays open.
    pub fn keep_locks_over_exec(&self) {
        culvert_run::get().posix_locks.keep_over_exec(|| {
            let mut own = Vec::new();
            self.each(|_, description| {
                // The program's own number goes or stays as the program says.
                if let Object::File(file) = &description.object
                    && !description.is_lent()
                {
                    // What the file has become is open beside it, too.
                    let gone = description.orphan().and_then(|gone| gone.descriptor());
                    let of_node = file.descriptor().into_iter().chain(gone);
                    own.extend(of_node.map(|fd| (description.name(), fd)));
                }
            });
            own
        });
    }

    /// Before exec: what stands for locks that the next program is to have, and of which nodes.
    pub fn lock_files_over_exec(&self) -> Vec<(ShadowName, i32)> {
        culvert_run::get().posix_locks.files.over_exec(|name| {
            let mut closes = false;
            self.each(|fd, description| {
                closes |= description.name() == name
                    && !matches!(description.object, Object::Path)
                    && culvert_run::files::close_on_exec(fd).unwrap_or(true);
            });
            closes
        })
    }

    /// The program's descriptor of `description` goes, and with it its locks, unless that was only
    /// a path (`filp_flush`, fs/open.c).
    pub(super) fn lose(&self, old: Option<Arc<Description>>) {
        if let Some(description) = old {
            let name = description.name();
            let had_locks = !matches!(description.object, Object::Path)
                && culvert_run::get().posix_locks.closed(name);
            // The kernel has seen a dup of the placeholder go, no descriptor of the file.
            if had_locks && !description.is_shared() {
                drop(open_shadow(name, 0));
            }
            drop(description);
            self.closed(name);
        }
    }

    /// The program has closed a descriptor of the file of `name`: if that was its last one, the
    /// shadow that is kept open for it need not stay.
    fn closed(&self, name: ShadowName) {
        if pinned::may_unpin(name) {
            let mut open = false;
            self.each(|_, description| open |= description.name() == name);
            if !open {
                pinned::unpin(name);
            }
        }
    }
}

/// For every description of this process: whether its companions go through the exec that comes.
pub fn companions_before_exec() {
    let table = super::table();
    // Who has no description has no companions, and need not ask whether anybody has: to ask maps
    // the run's words. What else has this table may have descriptions of its own.
    if !table.is_shared() && table.end() == 0 || !crate::watch::tells() {
        return;
    }
    table.each(|_, description| description.companions_go(false));
    table.each(|fd, description| {
        if description.has_companions() && !culvert_run::files::close_on_exec(fd).unwrap_or(true) {
            description.companions_go(true);
        }
    });
}
