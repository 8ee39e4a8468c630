//! Descriptors that came from another process: what do they stand for?

use super::slot::Slot;
use super::{DescriptorTable, FUSE, fifos, fuse_devices, handed, saved};
use crate::description::{Description, Held, Object};
use alloc::sync::Arc;
use culvert::{Caller, Errno, FileKind, OpenFlags, Opened};
use culvert_cache::{State, orphan_file, reopen::is_out_of_reach};
use culvert_intercept::descriptors as classes;
use culvert_mounts::{MountId, References};
use culvert_run::{
    ShadowName, files::kernel_flags, internal::with_more, node_paths, stat_descriptor, task,
};
use culvert_sys::raw::general::{O_DIRECT, stat};

/// What was found.
pub(super) enum Looked {
    /// A description of ours.
    Ours(Arc<Description>),
    /// A shadow that cannot be more than its bytes.
    Filled,
    /// Something of the kernel's.
    Foreign,
}

impl DescriptorTable {
    /// Looks at a descriptor that nobody has told us of, and remembers what it is.
    pub(super) fn recognise(&self, fd: i32) -> Option<Held> {
        let found = stat_descriptor(fd).ok()?;
        match self.look_at(fd, &found) {
            Looked::Ours(description) => {
                if matches!(description.object, Object::File(_)) {
                    let own = description.own_file();
                    culvert_run::get()
                        .posix_locks
                        .note_inherited(description.name(), own, fd);
                }
                self.install(fd, description.clone());
                Some(Held::Counted(description))
            }
            Looked::Filled => None,
            Looked::Foreign => {
                let mount = self.recognise_directory(fd, &found);
                let _guard = self.lock.lock();
                // Another thread may have got the number since, for a file of ours.
                if self.slot(fd).is_none_or(Slot::is_empty) {
                    match mount {
                        Some(mount) => self.note_directory(fd, mount),
                        None if fuse_devices::is_bell(&found) => self.set_class(fd, FUSE),
                        None => {
                            self.set_class(fd, classes::FOREIGN);
                            if kernel_flags(fd).is_ok_and(|flags| flags & O_DIRECT != 0) {
                                self.note_unbuffered(fd);
                            }
                        }
                    }
                }
                None
            }
        }
    }

    /// What `fd`, of which the kernel says `found`, stands for.
    pub(super) fn look_at(&self, fd: i32, found: &stat) -> Looked {
        let run = &culvert_run::get();
        let name = (found.st_dev == run.device)
            .then(|| match orphan_file::is_orphan(found) {
                true => orphan_file::name_of(found),
                false => run.name_of(fd, found),
            })
            .flatten();
        let Some(name) = name else {
            if let Some(fifo) = fifos::recognise(fd, found) {
                return Looked::Ours(Arc::new(fifo));
            }
            let direct = run
                .marked(found)
                .and_then(|mount| self.adopt_direct(fd, mount));
            return direct.map_or(Looked::Foreign, |description| {
                Looked::Ours(Arc::new(description))
            });
        };
        let adopted = match self.adopt(fd, name, found) {
            // A full table is no reason not to read what was inherited.
            Err(error) if error.errno() == Errno::EMFILE => {
                with_more(|| self.adopt(fd, name, found)).unwrap_or(Err(error))
            }
            adopted => adopted,
        };
        match adopted {
            Ok(description) => Looked::Ours(Arc::new(description)),
            Err(error) => {
                culvert_sys::log!(
                    "descriptor {fd} stands for {name}, which cannot be opened: {error:?}"
                );
                // What is written to one that can be changed would stay there.
                let reads_only =
                    kernel_flags(fd).is_ok_and(|flags| !crate::description::may_write(flags));
                if reads_only && State::of(found).has_all() {
                    return Looked::Filled;
                }
                let mount = name.mount;
                Looked::Ours(Arc::new(Description::shared(
                    mount,
                    name.node,
                    FileKind::Regular,
                    Object::Broken,
                    kernel_flags(fd).unwrap_or(0),
                )))
            }
        }
    }

    fn adopt(&self, fd: i32, name: ShadowName, found: &stat) -> culvert::Result<Description> {
        let flags = kernel_flags(fd)?;
        if orphan_file::is_orphan(found) && flags & culvert_run::files::O_PATH == 0 {
            return culvert_run::get()
                .posix_locks
                .while_adopting(|| orphan_file::file_of(name, found, fd))
                .map(|file| Description::direct(name.mount, name.node, file, flags));
        }
        let mount = name.mount;
        culvert_run::restarts::told_of(mount);
        let file_system = culvert_cache::file_system(mount)?;
        if file_system.capabilities().transient_nodes {
            node_paths::find(name).or_else(|error| match handed::find(file_system, name) {
                true => Ok(()),
                false => Err(error),
            })?;
        }
        let kind = file_system.attributes(&Caller::SYSTEM, name.node)?.kind;
        let mut references = References::new(&culvert_run::get().mounts);
        let object = match kind {
            _ if flags & culvert_run::files::O_PATH != 0 => Object::Path,
            FileKind::Directory => Object::Directory,
            _ => {
                let saved = saved::of(fd, name);
                let how = OpenFlags(flags & 3);
                let restored = file_system.restore(&task::caller(), name.node, how, &saved);
                let opened = match restored {
                    Err(error) if is_out_of_reach(&error) && saved.is_empty() => {
                        let continued = handed::continued(file_system, name, how.0);
                        let (entry, opened) = continued.ok_or(error)?;
                        references.push(mount, entry.attributes.node);
                        opened
                    }
                    restored => restored?,
                };
                match opened {
                    Opened::Driven(file) => Object::File(file),
                    Opened::Backed(_) => {
                        let text = "a shadow of a backed file";
                        return Err(culvert::Error::because(Errno::EIO, text));
                    }
                }
            }
        };
        let flags = match &object {
            Object::Directory => culvert_cache::shadow::flags_of_directory_shadow(flags),
            _ => flags,
        };
        // Its attributes may be asked for next.
        culvert_cache::strangers::bring_all();
        let mut description = Description::shared(mount, name.node, kind, object, flags);
        description.references = references;
        Ok(description)
    }

    /// A descriptor on a driver's own file. What its driver does not know after all is a foreign
    /// one: its bytes are right without us.
    fn adopt_direct(&self, fd: i32, mount: MountId) -> Option<Description> {
        let flags = kernel_flags(fd).ok()?;
        culvert_run::restarts::told_of(mount);
        let adopted = culvert_cache::file_system(mount)
            .and_then(|file_system| {
                culvert_run::get()
                    .posix_locks
                    .while_adopting(|| file_system.adopt(&task::caller(), fd, OpenFlags(flags)))
                    .map_err(|error| error.errno())
            })
            .inspect_err(|error| {
                culvert_sys::log!(
                    "descriptor {fd}, of a file of mount {}, is left to the kernel: {error}",
                    mount.0
                )
            })
            .ok()?;
        match adopted {
            (entry, Opened::Driven(file)) => {
                let node = entry.attributes.node;
                let mut description = Description::direct(mount, node, file, flags);
                description.references = References::new(&culvert_run::get().mounts);
                description.references.push(mount, node);
                Some(description)
            }
            (_, Opened::Backed(_)) => None,
        }
    }
}
