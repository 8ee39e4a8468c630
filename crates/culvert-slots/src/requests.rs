//! What the slots know of requests: which have no reply, and which close a file.

const FORGET: u32 = 2;
const RELEASE: u32 = 18;
const RELEASEDIR: u32 = 29;
pub(crate) const NOTIFY_REPLY: u32 = 41;
pub(crate) const BATCH_FORGET: u32 = 42;

/// Whether a request has a reply.
pub(crate) const fn has_reply(opcode: u32) -> bool {
    !matches!(opcode, FORGET | BATCH_FORGET | NOTIFY_REPLY)
}

/// Whether a request closes a file.
pub(crate) const fn is_release(opcode: u32) -> bool {
    matches!(opcode, RELEASE | RELEASEDIR)
}
