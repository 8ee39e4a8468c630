//! A request, from its bytes to its answer.

use crate::{
    channel::Channel,
    handover::{Past, RequestSlot},
    identity::Identity,
    interrupts::Hand,
    paths::Named,
    report::report,
    session::{Context, Session},
    touched::Watched,
};
use culvert::Errno;
use culvert_wire::{Answer, Message, Operation, Reply, Request, UNIQUE_RESEND};
use std::{io, sync::Arc};

/// After so many servers that died while they had a request in hand, it is answered with EIO.
const ATTEMPTS: u32 = 3;

/// A thread that carries requests out.
pub(crate) struct Worker<'a> {
    session: &'a Session,
    hand: Arc<Hand>,
    identity: Identity,
    slot: Option<RequestSlot>,
}

impl<'a> Worker<'a> {
    /// The calling thread. `slot`: where it stands what it does.
    pub fn new(session: &'a Session, slot: Option<RequestSlot>) -> Self {
        Self {
            session,
            hand: session.interrupts.join(),
            identity: Identity::of_thread(),
            slot,
        }
    }

    /// Carries `request` out, and answers it by `channel`; the answer's data may lie in `out`.
    ///
    /// # Errors
    /// What came is no request, or the answer does not go out.
    pub fn carry_out(
        &mut self,
        channel: &dyn Channel,
        request: &[u8],
        out: &mut [u8],
    ) -> io::Result<()> {
        let (session, slot) = (self.session, self.slot);
        let Some(header) = Request::header(request) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let evidence = match past(header.unique, slot) {
            Some(Past::Answered(answer)) => {
                channel.send_again(answer, header.unique)?;
                slot.inspect(|slot| slot.end());
                return Ok(());
            }
            Some(Past::Begun { attempts, .. }) if attempts >= ATTEMPTS => {
                let name = Operation::name(header.opcode);
                report(format_args!(
                    "{name}: EIO: {attempts} servers have died of this request"
                ));
                let answer = Answer::Error(Errno::EIO.raw());
                return session.reply(channel, header.unique, answer, slot);
            }
            Some(Past::Begun { evidence, .. }) => evidence,
            None => {
                slot.inspect(|slot| slot.begin(header.unique));
                None
            }
        };
        let interrupts = &session.interrupts;
        interrupts.begin(&self.hand, header.unique, header.opcode, header.pid);
        let mut context = Context {
            header,
            identity: &mut self.identity,
            channel,
            hand: &self.hand,
            groups: Vec::new(),
            slot,
            evidence,
            left: false,
        };
        let answer = session.answer(&mut context, request, out);
        interrupts.end(&self.hand);
        if let Some(counters) = session.settings.counters {
            counters.count(header.opcode, answer.as_ref());
        }
        match answer {
            Some(answer) => session.reply(channel, header.unique, answer, slot)?,
            None => {
                slot.inspect(|slot| slot.end());
            }
        }
        Ok(())
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.session.interrupts.leave(&self.hand);
    }
}

/// What an earlier server did of request `unique`, where it comes again.
fn past(unique: u64, slot: Option<RequestSlot>) -> Option<Past> {
    let comes_again = unique & UNIQUE_RESEND != 0;
    slot.filter(|_| comes_again)?.past(unique)
}

impl Session {
    /// The answer to a request; none where none is due.
    fn answer<'o>(
        &self,
        context: &mut Context<'_>,
        request: &[u8],
        out: &'o mut [u8],
    ) -> Option<Answer<'o>> {
        let header = context.header;
        let name = Operation::name(header.opcode);
        let request = match Request::decode(request, &self.protocol) {
            Ok(request) => request,
            Err(error) => {
                report(format_args!("request {name} {}: {error}", header.opcode));
                return Some(Answer::Error(Errno::EIO.raw()));
            }
        };
        if let Operation::Interrupt { interrupt } = request.operation {
            self.interrupts.interrupt(interrupt.unique);
            return None;
        }
        let answered = request.operation.is_answered();
        let watched = self
            .extension
            .as_ref()
            .and_then(|extension| Watched::new(extension, &header, &request.operation));
        let paths = self.paths.as_ref();
        let named = paths.map(|paths| Named::new(paths, &header, &request.operation));
        let result = self.dispatch(context, &request, out);
        if self.settings.trace {
            let outcome = match &result {
                Ok(_) => "ok",
                Err(error) => error.errno().name(),
            };
            report(format_args!(
                "{name} node {} by {}: {outcome}",
                header.nodeid, header.uid
            ));
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(cause) = error.cause() {
                    report(format_args!("{name}: {}: {cause}", error.errno().name()));
                }
                Answer::Error(error.errno().raw())
            }
        };
        if let Some(named) = named {
            named.end(&answer);
        }
        if let Some(watched) = watched {
            // Extended attributes are believed as long as the others.
            let valid = || {
                let node = self.numbers.node(header.nodeid);
                self.validity_of(node).attributes
            };
            for node in watched.end(&answer, valid) {
                self.read_anew(node);
            }
            self.look_for_capabilities(&header, &request.operation, &answer);
            self.forget_unkept();
        }
        (answered && !context.left).then_some(answer)
    }

    fn reply(
        &self,
        channel: &dyn Channel,
        unique: u64,
        answer: Answer<'_>,
        slot: Option<RequestSlot>,
    ) -> io::Result<()> {
        let message: Message<'_> = Reply { unique, answer }
            .encode(&self.protocol)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if let Some(slot) = slot {
            slot.carried_out(&message);
        }
        channel.send(&message)?;
        slot.inspect(|slot| slot.end());
        Ok(())
    }
}
