//! Large reads: from the server to the program's memory, and where they follow each other the next
//! READ is under way while the program has the bytes of the last, and the one behind it while it
//! waits for these: the kernel, too, sends for a window when the first page of the last is touched,
//! whether that is there or not (`page_cache_async_ra`, mm/readahead.c). A reply stays in its slot
//! until it is asked for.

use crate::{ahead::Sent, cached::AHEAD, data::put_from, file::FuseFile, pages::PAGE};
use alloc::vec::Vec;
use culvert::{Errno, Error, Result, Sink};
use culvert_wire::{InitFlags, structures::ReadIn};

/// What is read is believed by this, and the file ends there.
#[derive(Clone, Copy)]
struct Ground {
    belief: u64,
    size: u64,
}

impl FuseFile {
    /// A read that goes straight to the program.
    pub fn read_large(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let (core, node) = (&self.core, self.node);
        let end = offset.saturating_add(out.remaining() as u64);
        let known = core.nodes.mostly_known(core.words(), core.moment(), node);
        // Behind the end the kernel asks for nothing.
        if matches!(known, Some((known, true)) if offset >= known.size) {
            return Ok(0);
        }
        let (follows, has_sent) = {
            let ahead = self.ahead.lock();
            (ahead.through == offset, !ahead.sent.is_empty())
        };
        let mut ground = match follows && has_sent {
            true => self.ground(end, true)?,
            false => None,
        };
        let mut at = offset;
        while at < ground.map_or(end, |ground| end.min(ground.size)) {
            let given = match (ground, follows) {
                (Some(ground), true) => self.give_sent(ground, at, out),
                _ => Ok(None),
            };
            let wanted = out.remaining().min(self.most());
            let step = match given {
                Ok(Some((count, is_all))) => Ok((count, is_all)),
                Ok(None) => self
                    .read_once(at, wanted, out)
                    .map(|count| (count, count == wanted)),
                Err(error) => Err(error),
            };
            let (count, is_all) = match step {
                Err(error) if at == offset => return Err(error),
                Err(_) => break,
                Ok(step) => step,
            };
            at += count as u64;
            // Less than was asked for is the end of the file (`fuse_short_read`).
            if !is_all {
                break;
            }
            if follows {
                ground = match ground {
                    // What was read is given, whatever comes of this.
                    None => self.ground(end, false).unwrap_or(None),
                    ground => ground,
                };
                if let Some(ground) = ground {
                    self.send_next(ground, at);
                }
            }
        }
        let done = (at - offset) as usize;
        self.was_read(done);
        self.ahead.lock().through = at;
        Ok(done)
    }

    /// By what is read up to `end` is believed, as the kernel asks for attributes before it
    /// (`fuse_cache_read_iter`, fs/fuse/file.c), or always where this `asks`; none where nothing
    /// can be.
    fn ground(&self, end: u64, asks: bool) -> Result<Option<Ground>> {
        let (core, node) = (&self.core, self.node);
        let auto = core.connection.agreed.has(InitFlags::AUTO_INVAL_DATA);
        let known = match core.nodes.mostly_known(core.words(), core.moment(), node) {
            Some((known, is_fresh)) if is_fresh || !auto && end <= known.size => known,
            None if !auto && !asks => return Ok(None),
            _ => core.ask_attributes(self.who()?, node, self.handle.fh)?,
        };
        let size = known.size;
        let belief = core.belief(node, &known);
        Ok(belief.map(|belief| Ground { belief, size }))
    }

    /// Gives `out` what was sent for, from `at` on: how much that was, and whether all that was
    /// there is as it should; none: nothing was.
    fn give_sent(
        &self,
        ground: Ground,
        at: u64,
        out: &mut dyn Sink,
    ) -> Result<Option<(usize, bool)>> {
        let channel = &self.core.connection.channel;
        let Some(sent) = self.first_sent(ground, at) else {
            return Ok(None);
        };
        let from = (at - sent.start) as usize;
        let until = (from + out.remaining()).min(sent.length);
        let keeps = until < sent.length;
        // The server, and whom it asks, have work meanwhile.
        self.send_next(ground, sent.end());
        let (mut put, mut there) = (Ok(0), 0);
        let ended = channel.end(sent.begun, keeps, &mut |reply| {
            if reply.len() > sent.length {
                return Err(Errno::EIO);
            }
            there = reply.len();
            put = put_from(reply, from, until - from, out);
            Ok(())
        });
        match ended {
            Ok(()) => {
                let has_any = there > from;
                match keeps {
                    true if has_any => self.put_back(sent),
                    true => channel.abandon(sent.begun),
                    false => {}
                }
                let put = put?;
                // Where there is nothing of it, the server is asked whether that is the end.
                Ok(has_any.then_some((put, put == until - from)))
            }
            Err(Errno::EINTR) => Err(Error::from(Errno::EINTR)),
            // It is asked for anew.
            Err(_) => Ok(None),
        }
    }

    /// The window that was sent for first, if it has the byte at `at` and is believed; else none
    /// is wanted any more.
    fn first_sent(&self, ground: Ground, at: u64) -> Option<Sent> {
        {
            let mut ahead = self.ahead.lock();
            let first = ahead.sent.first()?;
            if first.belief == ground.belief && first.has(at) {
                return Some(ahead.sent.remove(0));
            }
        }
        self.abandon_sent();
        None
    }

    /// More of `sent` is wanted later. Another thread may have sent for something meanwhile.
    fn put_back(&self, sent: Sent) {
        let mut ahead = self.ahead.lock();
        let others = ahead
            .sent
            .first()
            .is_some_and(|next| next.start != sent.end());
        let others = match others {
            true => core::mem::take(&mut ahead.sent),
            false => Vec::new(),
        };
        ahead.sent.insert(0, sent);
        drop(ahead);
        self.abandon(others);
    }

    /// Sends for what lies behind `start`, unless something was sent for that nobody waits for yet.
    fn send_next(&self, ground: Ground, start: u64) {
        let connection = &self.core.connection;
        let most = connection.agreed.max_readahead.min(AHEAD).min(self.most()) / PAGE * PAGE;
        let left = ground.size.saturating_sub(start);
        let length = most.min(usize::try_from(left).unwrap_or(most).next_multiple_of(PAGE));
        let mut ahead = self.ahead.lock();
        if length == 0 || !ahead.sent.is_empty() {
            return;
        }
        let operation = self.read_operation(start, length);
        let Ok((opcode, body)) = operation.body(&connection.agreed.protocol) else {
            return;
        };
        let mut bytes = [0; size_of::<ReadIn>()];
        let Some(bytes) = bytes.get_mut(..body.length()) else {
            return;
        };
        let (Ok(who), Some(_)) = (self.who(), body.copy_to(bytes)) else {
            return;
        };
        if let Ok(begun) = connection.channel.begin(who.sent, opcode, self.node, bytes) {
            ahead.sent.push(Sent {
                begun,
                start,
                length,
                belief: ground.belief,
            });
        }
    }

    /// What was sent for is not wanted any more.
    pub fn abandon_sent(&self) {
        let sent = core::mem::take(&mut self.ahead.lock().sent);
        self.abandon(sent);
    }

    fn abandon(&self, sent: Vec<Sent>) {
        for one in sent {
            self.core.connection.channel.abandon(one.begun);
        }
    }
}
