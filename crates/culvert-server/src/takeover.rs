//! What a server takes over from the one before it.

use crate::{
    handover::{Open, Reopen, identity},
    opened::{Lost, OpenDirectory, OpenFile, file_in},
    report::report,
    session::Session,
};
use culvert::{Caller, Errno, Error, File, Node, OpenFlags, Opened, OpenedDirectory, Result};
use culvert_sys::BorrowedFd;

impl Session {
    /// Opens what the kernel has open. What cannot be opened is reported, and EBADF until it is
    /// closed.
    pub(crate) fn take_over(&self) {
        let handover = self.settings.handover;
        // The driver of before would have woken who waits: they ask this one, also of files that
        // are lost below.
        if let Some(notifications) = &self.notifications {
            handover
                .files
                .waiting()
                .for_each(|number| notifications.ready(number));
        }
        for (number, open) in handover.files.each() {
            let node = Node(open.node);
            let flags = OpenFlags(open.flags);
            let may_store = flags.read() && flags.write();
            let counted = (open.backing >= 0).then_some(may_store);
            let stores = may_store && open.backing <= 0;
            if stores {
                self.mapped_writers.open(node, true);
            }
            if counted.is_some() {
                let backing = (open.backing > 0).then_some(open.backing);
                self.backings.restore(node, backing, may_store);
            }
            let file = self.reopened(&open);
            let lost = file.is_err();
            let file = file.unwrap_or_else(|error| {
                if open.kind != Reopen::Lost {
                    report(format_args!("an open file is lost: {error}"));
                    handover.files.lose(number);
                }
                Box::new(Lost)
            });
            let file = OpenFile {
                file,
                node,
                counted,
                stores,
                lost,
            };
            self.files.insert_as(number, file);
        }
        for (number, open) in handover.directories.each() {
            let flags = OpenFlags(open.flags);
            let opened = self
                .filesystem
                .open_directory(&Caller::SYSTEM, Node(open.node), flags);
            let driven = match opened {
                Ok(OpenedDirectory::Driven(directory)) => Some(directory),
                Ok(OpenedDirectory::Backed(_)) => None,
                // It is asked by node, and says itself what is wrong.
                Ok(OpenedDirectory::Stateless) | Err(_) => None,
            };
            self.directories.insert_as(number, OpenDirectory { driven });
        }
    }

    fn reopened(&self, open: &Open) -> Result<Box<dyn File>> {
        let node = Node(open.node);
        match open.kind {
            Reopen::Driven => {}
            Reopen::Lost => return Err(Errno::EBADF.into()),
            Reopen::Backed => {
                let left = identity(BorrowedFd::number(open.fd));
                return match left == Some(open.identity) {
                    true => Ok(file_in(
                        Opened::Backed(culvert::OwnedFd::from_raw(open.fd)),
                        node,
                    )),
                    false => Err(Error::because(
                        Errno::EBADF,
                        "its descriptor is not that file's any more",
                    )),
                };
            }
        }
        // What it was opened for besides is done.
        let flags = OpenFlags(open.flags)
            .without(OpenFlags::TRUNCATE)
            .without(OpenFlags::EXCLUSIVE);
        let opened = self.filesystem.restore(&Caller::SYSTEM, node, flags, b"")?;
        Ok(file_in(opened, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        channel::{Channel, RequestChannel},
        handover::{Handover, Holding},
        identity::Identity,
        session::Context,
        settings::Settings,
    };
    use culvert::mount::Mount;
    use culvert_drivers::Environment;
    use culvert_sys::{AsFd, OwnedFd};
    use culvert_wire::{InitFlags, Message, NEWEST_MINOR, Protocol, structures::ReleaseIn};
    use std::io;

    /// A kernel that takes notifications, or does not.
    struct Kernel(bool);

    impl Channel for Kernel {
        fn send(&self, _: &Message<'_>) -> io::Result<()> {
            match self.0 {
                true => Ok(()),
                false => Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        fn register_backing(&self, _: BorrowedFd<'_>) -> io::Result<i32> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn release_backing(&self, _: i32) {}
    }

    impl RequestChannel for Kernel {
        fn receive(&self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// What a server has left that has agreed with the kernel.
    fn handover() -> &'static Handover {
        let handover = Handover::new().unwrap();
        handover.set_protocol(&Protocol {
            minor: NEWEST_MINOR,
            flags: InitFlags::NONE,
        });
        handover
    }

    /// The next server.
    fn next(handover: &'static Handover, kernel: &Kernel) -> Result<Session> {
        let mount = Mount {
            driver: "passthrough".into(),
            source: std::env::temp_dir().into_os_string().into_encoded_bytes(),
            target: b"/mnt".to_vec(),
            options: [].into(),
            branches: Vec::new(),
        };
        let filesystem = culvert_drivers::open(&mount, &Environment::default())?;
        let settings = Settings {
            handover,
            ..Settings::default()
        };
        Session::negotiate(filesystem, settings, kernel)
    }

    fn memory() -> OwnedFd {
        culvert_sys::fd::memfd_create(c"left", 0).unwrap()
    }

    const NODE: Node = Node(5);

    fn backed(fd: i32, identity: [u64; 2]) -> Open {
        Open {
            kind: Reopen::Backed,
            node: NODE.0,
            flags: 2,
            fd,
            identity,
            backing: -1,
            request: 2,
        }
    }

    #[test]
    fn a_server_that_fails_leaves_everything_open() {
        let handover = handover();
        let [file, lock] = [(); 2].map(|()| {
            let made = memory();
            let identity = identity(made.as_fd()).unwrap();
            (made.into_raw(), identity)
        });
        handover.files.set(1, &backed(file.0, file.1));
        let holding = Holding {
            kind: 1,
            owner: 7,
            node: NODE.0,
            fh: 1,
            pid: 9,
            fd: lock.0,
            identity: lock.1,
        };
        handover.locks.add(&holding).unwrap();
        assert!(next(handover, &Kernel(false)).is_err());
        for (fd, own) in [file, lock] {
            let left = identity(BorrowedFd::number(fd));
            assert_eq!(left, Some(own));
        }
        let session = next(handover, &Kernel(true)).unwrap();
        assert!(session.file(NODE, 1).is_ok());
        assert_eq!(handover.locks.each().count(), 1);
    }

    #[test]
    fn what_is_lost_is_the_kernels_until_it_closes_it() {
        let handover = handover();
        let (own, somebodys) = (memory(), memory());
        let its = identity(own.as_fd()).unwrap();
        handover.files.set(1, &backed(somebodys.raw(), its));
        handover.files.set(2, &backed(own.into_raw(), its));
        let errno = |session: &Session, node, number| {
            let found = session.file(node, number);
            found.map(drop).map_err(|error| error.errno())
        };
        next(handover, &Kernel(true)).unwrap().leave();
        // Also to the server after the next, and to the one after that it is not another file.
        let session = next(handover, &Kernel(true)).unwrap();
        assert_eq!(errno(&session, NODE, 1), Err(Errno::EBADF));
        assert_eq!(errno(&session, NODE, 2), Ok(()));
        assert_eq!(errno(&session, Node(6), 2), Err(Errno::EBADF));
        let opened = session.files.insert(OpenFile {
            file: Box::new(Lost),
            node: NODE,
            counted: None,
            stores: false,
            lost: false,
        });
        assert_eq!(crate::handles::place(opened), 3);
        assert_ne!(opened, 3);

        let hand = session.interrupts.join();
        let mut context = Context {
            header: culvert_wire::structures::InHeader::default(),
            identity: &mut Identity::of_thread(),
            channel: &Kernel(true),
            hand: &hand,
            groups: Vec::new(),
            slot: None,
            evidence: None,
            left: false,
        };
        let mut release = |node, fh| {
            let release = ReleaseIn {
                fh,
                ..ReleaseIn::default()
            };
            session.release(&mut context, node, &release).is_ok()
        };
        assert!(!release(Node(6), 2));
        assert_eq!(errno(&session, NODE, 2), Ok(()));
        assert!(release(NODE, 1) && release(NODE, 2));
        assert_eq!(handover.files.each().count(), 0);
        // It was never ours to close.
        assert!(identity(somebodys.as_fd()).is_some());
    }
}
