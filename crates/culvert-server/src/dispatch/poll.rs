//! poll(2): whether an open file is ready, and that it has become so.
//!
//! The kernel asks each time that somebody looks. When somebody waits it gives a number of the open
//! file (`kh`), and a notification with that number makes who waits ask again (`fuse_file_poll`,
//! fs/fuse/file.c).

use super::Outcome;
use crate::{notifications::Notifications, session::Session};
use culvert::{Errno, Node};
use culvert_wire::{
    Answer,
    structures::{PollIn, PollOut},
};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

/// Wakes who waits for an open file.
struct Waiters {
    notifications: Arc<Notifications>,
    /// The file's number.
    number: u64,
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.notifications.ready(self.number);
    }
}

impl Session {
    /// - `ENOSYS`: every file is ready always; the kernel does not ask again, for any file of the
    ///   mount.
    pub(super) fn poll(&self, node: Node, poll: &PollIn) -> Outcome<'static> {
        let notifications = self.notifications.as_ref().filter(|_| self.polls);
        let notifications = notifications.ok_or(Errno::ENOSYS)?;
        let open = self.file_of(node, poll.fh)?;
        let waits = poll.flags & PollIn::SCHEDULE_NOTIFY != 0;
        let waker = waits.then(|| {
            self.settings.handover.files.waits(poll.fh, poll.kh);
            Waker::from(Arc::new(Waiters {
                notifications: Arc::clone(notifications),
                number: poll.kh,
            }))
        });
        // Of one file ENOSYS is an error like others (`File::poll`): to the kernel it would be that
        // of all, for ever.
        let ready = open.file.poll(waker.as_ref());
        let ready = ready.map_err(|error| match error.errno() {
            Errno::ENOSYS => Errno::EIO.into(),
            _ => error,
        })?;
        Ok(Answer::Ready {
            ready: PollOut {
                revents: u32::from(ready.0),
                padding: 0,
            },
        })
    }
}
