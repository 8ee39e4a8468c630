//! What the kernel adds to requests that make a file: the security context that the new file shall
//! have, and the one supplementary group of the caller that decides about set-group-ID.

use crate::{
    Malformed, Plain,
    structures::{ExtHeader, Secctx},
};

/// `FUSE_EXT_GROUPS`.
const GROUPS: u32 = 32;
/// `FUSE_MAX_NR_SECCTX`.
const MAXIMUM_CONTEXTS: u32 = 31;

/// The extensions of a request: a sequence of headers with their bytes, each a multiple of 8 long.
/// Checked when made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a>(&'a [u8]);

/// One extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension<'a> {
    /// Security contexts (`struct fuse_secctx_header`).
    Security(SecurityContexts<'a>),
    /// Supplementary groups (`struct fuse_supp_groups`).
    Groups(Groups<'a>),
    /// One of a type that is not known here: to be passed over.
    Other(u32),
}

/// Security contexts for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurityContexts<'a> {
    bytes: &'a [u8],
    count: u32,
}

/// A security context: the extended attribute that the new file shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurityContext<'a> {
    /// Its name ("security.selinux").
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Groups of the caller. Linux sends at most one: the directory's, if the caller is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a>(&'a [u8]);

impl<'a> Extensions<'a> {
    /// None.
    pub const NONE: Self = Self(&[]);

    /// Extensions as they are sent.
    ///
    /// # Errors
    /// [`Malformed::Extension`]: a length or count that does not fit.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (extension, after) = one(rest)?;
            if let Extension::Security(contexts) = extension {
                let mut all = contexts.iter();
                if all.by_ref().count() != contexts.count as usize {
                    return Err(Malformed::Extension);
                }
            }
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// As they are sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Each.
    pub fn iter(self) -> impl Iterator<Item = Extension<'a>> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (extension, after) = one(rest).ok()?;
            rest = after;
            Some(extension)
        })
    }
}

/// The first extension of `bytes`, and what follows it.
fn one(bytes: &[u8]) -> Result<(Extension<'_>, &[u8]), Malformed> {
    let header_length = size_of::<ExtHeader>();
    if bytes.len() < header_length {
        return Err(Malformed::Extension);
    }
    let header = ExtHeader::from_prefix(bytes);
    let size = header.size as usize;
    if size < header_length || !size.is_multiple_of(8) {
        return Err(Malformed::Extension);
    }
    let (whole, after) = bytes.split_at_checked(size).ok_or(Malformed::Extension)?;
    let body = whole.get(header_length..).ok_or(Malformed::Extension)?;
    let extension = match header.r#type {
        count @ 0..=MAXIMUM_CONTEXTS => {
            Extension::Security(SecurityContexts { bytes: body, count })
        }
        GROUPS => {
            let (count, groups) = body.split_first_chunk().ok_or(Malformed::Extension)?;
            let length = (u32::from_ne_bytes(*count) as usize).checked_mul(4);
            let groups = length.and_then(|length| groups.get(..length));
            Extension::Groups(Groups(groups.ok_or(Malformed::Extension)?))
        }
        other => Extension::Other(other),
    };
    Ok((extension, after))
}

impl<'a> SecurityContexts<'a> {
    /// Each, as many as the header says.
    pub fn iter(self) -> impl Iterator<Item = SecurityContext<'a>> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (context, after) = context(rest)?;
            rest = after;
            Some(context)
        })
    }
}

/// The first context of `bytes`, and what follows it: each is padded to a multiple of 8
/// (`get_security_context`, fs/fuse/dir.c).
fn context(bytes: &[u8]) -> Option<(SecurityContext<'_>, &[u8])> {
    let head = bytes.get(..size_of::<Secctx>())?;
    let size = Secctx::from_prefix(head).size as usize;
    let body = bytes.get(head.len()..)?;
    let end = body.iter().position(|&byte| byte == 0)?;
    let name = body.get(..end)?;
    let value = body.get(end + 1..)?.get(..size)?;
    let length = (head.len() + end + 1 + size).next_multiple_of(8);
    Some((SecurityContext { name, value }, bytes.get(length..)?))
}

impl<'a> Groups<'a> {
    /// Each.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0
            .chunks_exact(4)
            .filter_map(<[u8]>::first_chunk)
            .map(|bytes| u32::from_ne_bytes(*bytes))
    }
}

impl Extension<'_> {
    /// Writes the extension "these groups" to the start of `out` and returns its length; none when
    /// it does not fit.
    pub fn write_groups(groups: &[u32], out: &mut [u8]) -> Option<usize> {
        let length =
            (size_of::<ExtHeader>() + 4 + groups.len().checked_mul(4)?).next_multiple_of(8);
        let place = out.get_mut(..length)?;
        place.fill(0);
        let header = ExtHeader {
            size: u32::try_from(length).ok()?,
            r#type: GROUPS,
        };
        let count = u32::try_from(groups.len()).ok()?.to_ne_bytes();
        let values = groups.iter().map(|group| group.to_ne_bytes());
        let (head, rest) = place.split_at_mut_checked(size_of::<ExtHeader>())?;
        head.copy_from_slice(header.bytes());
        for (place, value) in rest
            .chunks_exact_mut(4)
            .zip(core::iter::once(count).chain(values))
        {
            place.copy_from_slice(&value);
        }
        Some(length)
    }

    /// Writes the extension "these security contexts" to the start of `out` and returns its length;
    /// none when it does not fit.
    pub fn write_security(contexts: &[SecurityContext<'_>], out: &mut [u8]) -> Option<usize> {
        let count = u32::try_from(contexts.len()).ok();
        let count = count.filter(|&count| count <= MAXIMUM_CONTEXTS)?;
        let mut at = size_of::<ExtHeader>();
        for context in contexts {
            let size = u32::try_from(context.value.len()).ok()?;
            let head = Secctx { size, padding: 0 };
            let start = at;
            for part in [head.bytes(), context.name, b"\0", context.value] {
                let end = at.checked_add(part.len())?;
                out.get_mut(at..end)?.copy_from_slice(part);
                at = end;
            }
            let end = start + (at - start).next_multiple_of(8);
            out.get_mut(at..end)?.fill(0);
            at = end;
        }
        let header = ExtHeader {
            size: u32::try_from(at).ok()?,
            r#type: count,
        };
        out.get_mut(..size_of::<ExtHeader>())?
            .copy_from_slice(header.bytes());
        Some(at)
    }
}
