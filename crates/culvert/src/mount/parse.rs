//! From the words of a command line to a [`Request`].

use super::escapes::{escape, split, unescape};
use super::list::{elements, field_end, fields as fields_of, mount_end};
use super::{
    Branch, LISTS, Options, Request, checked_path, driver_name, invalid, is_library, option_name,
    shown,
};
use crate::Result;
use alloc::{format, string::ToString, vec::Vec};

/// Parses docker's `-v SOURCE:TARGET[:OPTIONS]`; the driver is left to be found from the source.
///
/// `EINVAL` with the reason: a field missing or too many, a bad escape, a bad option. A colon in a
/// name is written `\:`. With `type=T` among OPTIONS, what stands before TARGET may be several
/// sources.
pub fn parse_volume(text: &[u8]) -> Result<Request> {
    volume(text).map_err(|error| error.within(&shown(text)))
}

fn volume(text: &[u8]) -> Result<Request> {
    if is_url(text) {
        return Err(invalid(
            "the source is a URL, not a path (download it first, and name the file)",
        ));
    }
    let fields = split(text, b':')?;
    if let [sources @ .., target, options] = &fields[..]
        && split(options, b',')?
            .iter()
            .any(|one| one.starts_with(b"type="))
    {
        return typed_volume(sources, target, options);
    }
    let named = |field: &[u8]| field.contains(&b'/');
    let (source, target, options) = match fields[..] {
        [source, target] => (source, target, &b""[..]),
        // The source `memory:NAME` has a colon of its own; a target has a slash, which neither a
        // name nor options have in that place.
        [b"memory", name, target] if named(target) && !named(name) => {
            (&text[..b"memory:".len() + name.len()], target, &b""[..])
        }
        [b"memory", name, target, options] => {
            (&text[..b"memory:".len() + name.len()], target, options)
        }
        [source, target, options] => (source, target, options),
        [_] => return Err(invalid("no target (want SOURCE:TARGET[:OPTIONS])")),
        _ => {
            return Err(invalid(
                "more than three fields (want SOURCE:TARGET[:OPTIONS]; a colon in a name is \
                written \\:; several sources want type=T among OPTIONS)",
            ));
        }
    };
    Ok(Request {
        driver: None,
        source: checked_path("source", &unescape(source)?)?,
        target: checked_path("target", &unescape(target)?)?,
        options: options_of(options)?,
        more_sources: Vec::new(),
        typed: Vec::from([source.to_vec()]),
    })
}

/// `SOURCE[:SOURCE]...:TARGET:OPTIONS`, where the type is among OPTIONS.
fn typed_volume(sources: &[&[u8]], target: &[u8], options: &[u8]) -> Result<Request> {
    let (mut driver, mut rest) = (None, Options::new());
    for (name, value) in options_of(options)? {
        match name.as_str() {
            "type" => once(&mut driver, "type", driver_name(&value)?.into())?,
            _ => rest.push((name, value)),
        }
    }
    if sources.is_empty() {
        return Err(invalid("no source (want SOURCE:TARGET:type=T)"));
    }
    let typed = sources.join(&b':');
    let sources = elements(&typed)?;
    let mut names = sources
        .iter()
        .map(|source| checked_path("source", &unescape(source)?));
    Ok(Request {
        driver,
        source: names
            .next()
            .ok_or_else(|| invalid("the source is empty"))??,
        target: checked_path("target", &unescape(target)?)?,
        options: rest,
        more_sources: names.collect::<Result<_>>()?,
        typed: sources.into_iter().map(<[u8]>::to_vec).collect(),
    })
}

/// The branches in `text`, a list with escapes in it, of a mount at `target`.
pub(super) fn branches(text: &[u8], target: &[u8]) -> Result<Vec<Branch>> {
    let each = elements(text)?.into_iter();
    each.map(|element| branch(element, target)).collect()
}

fn branch(text: &[u8], target: &[u8]) -> Result<Branch> {
    let end = match text.first() {
        Some(b'(') => mount_end(text)?,
        _ => 0,
    };
    let fields = split(&text[end..], b'=')?;
    let how = match fields[..] {
        [_] => Vec::new(),
        [_, how] => unescape(how)?,
        _ => {
            return Err(invalid(format!(
                "branch {} has two = (one in a name is written \\=)",
                shown(text)
            )));
        }
    };
    let name = checked_path("branch", &unescape(&[&text[..end], fields[0]].concat())?)?;
    if end == 0 {
        return Ok(Branch {
            source: name,
            how,
            mount: None,
        });
    }
    if !fields[0].is_empty() {
        return Err(invalid(format!(
            "branch {} goes on behind its parenthesis (= or : may follow; one at the beginning of \
            a name is written \\()",
            shown(text)
        )));
    }
    let mount = request(&text[1..end - 1], Some(target));
    let mount = mount.map_err(|error| error.within(&format!("branch {}", shown(&text[..end]))))?;
    Ok(Branch {
        source: mount.source.clone(),
        how,
        mount: Some(mount),
    })
}

/// Whether `text` begins as URLs do (RFC 3986): a scheme, and `://`.
pub fn is_url(text: &[u8]) -> bool {
    let end = text.iter().position(|&byte| byte == b':').unwrap_or(0);
    let scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    end > 0
        && text[0].is_ascii_alphabetic()
        && text[..end].iter().all(scheme)
        && text[end..].starts_with(b"://")
}

/// Parses mount(8)'s `-o OPTIONS`: names, with or without `=value`, separated by commas; an empty
/// string is no options.
///
/// `EINVAL` with the reason: an empty option, a bad name, a bad escape. A comma in a value is
/// written `\,`; the first `=` ends the name. A list ([`LISTS`]) keeps its escapes, for
/// [`Request::branches`].
pub fn parse_options(text: &[u8]) -> Result<Options> {
    let one = |field: &&[u8]| {
        let (name, value) = name_and_value(field);
        let value = value.map(|value| match is_kept(name) {
            true => Ok(value.to_vec()),
            false => unescape(value),
        });
        canonical(name, value.transpose()?)
    };
    let found = match text.is_empty() {
        true => Ok(Vec::new()),
        false => fields_of(text).and_then(|all| all.iter().map(one).collect()),
    };
    found.map_err(|error| error.within(&shown(text)))
}

/// Whether option `name` has a list as its value.
fn is_kept(name: &[u8]) -> bool {
    LISTS.iter().any(|list| list.as_bytes() == name)
}

/// The OPTIONS of a volume, all of whose values have escapes, lists as well.
fn options_of(text: &[u8]) -> Result<Options> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let one = |field: &&[u8]| {
        let (name, value) = name_and_value(field);
        let value = value.map(unescape).transpose()?;
        canonical(name, value)
    };
    split(text, b',')?.iter().map(one).collect()
}

/// Parses docker's `--mount type=T,source=S,target=D,opt=val`.
///
/// `src` means source; `dst` and `destination` mean target; `readonly` and `ro`, bare or with
/// `true`, `1`, `false`, `0`, become `ro` or `rw`; every other name is an option of the driver.
/// Without `type`, the driver is left to be found from the source. For a type that takes several,
/// `source=A:B`, or further sources that follow the first one, `source=A,source=B`; a quoted field
/// is one source. `EINVAL` with the reason: source (which
/// type `memory`, `overlay` and those of FUSE servers do not need) or target missing, target or
/// type given twice, a bad name, an unclosed quote, a bad escape.
pub fn parse_mount(text: &[u8]) -> Result<Request> {
    mount(text).map_err(|error| error.within(&shown(text)))
}

fn mount(text: &[u8]) -> Result<Request> {
    request(text, None)
}

/// What the fields of `text` ask for; `of`: as a branch of a mount at this target.
pub(super) fn request(text: &[u8], of: Option<&[u8]>) -> Result<Request> {
    let (mut driver, mut sources, mut target) = (None, Vec::new(), None);
    let (mut options, mut typed) = (Vec::new(), Vec::new());
    for Field { name, value, raw } in fields(text)? {
        let wanted = |value: Option<Vec<u8>>| {
            value.ok_or_else(|| invalid(format!("{} needs a value", shown(&name))))
        };
        match &*name {
            b"type" => once(&mut driver, "type", driver_name(&wanted(value)?)?.into())?,
            b"source" | b"src" => {
                sources.push(checked_path("source", &wanted(value)?)?);
                typed.push(raw);
            }
            b"target" | b"dst" | b"destination" if of.is_some() => {
                return Err(invalid("a branch has no target of its own"));
            }
            b"target" | b"dst" | b"destination" => {
                let path = checked_path("target", &wanted(value)?)?;
                once(&mut target, "target", path)?;
            }
            _ if is_kept(&name) && value.is_some() => {
                options.push((option_name(&name)?.into(), raw));
            }
            _ => options.push(canonical(&name, value)?),
        }
    }
    let wanted = if of.is_some() {
        "source=S"
    } else {
        "source=S,target=D"
    };
    let missing = |what| invalid(format!("no {what} (want {wanted})"));
    let target = of.map(<[u8]>::to_vec).or(target);
    let mut sources = sources.into_iter();
    Ok(Request {
        source: match (sources.next(), driver.as_deref()) {
            (Some(source), _) => source,
            (None, Some(driver)) if needs_no_source(driver) => driver.into(),
            (None, _) => return Err(missing("source")),
        },
        more_sources: sources.collect(),
        typed,
        driver,
        target: target.ok_or_else(|| missing("target"))?,
        options,
    })
}

/// Whether mounts of type `driver` may have no source: it is named after the type then.
fn needs_no_source(driver: &str) -> bool {
    matches!(driver, "memory" | "overlay" | "fuse" | "java" | "python")
        || driver.starts_with("fuse.")
        || is_library(driver)
}

fn once<T>(slot: &mut Option<T>, what: &str, value: T) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(invalid(format!("{what} is given twice")));
    }
    Ok(())
}

/// The option that `name` and `value` mean: docker's `readonly` in its forms is mount(8)'s `ro` or
/// `rw`.
fn canonical(name: &[u8], value: Option<Vec<u8>>) -> Result<(alloc::string::String, Vec<u8>)> {
    if !matches!(name, b"readonly" | b"ro" | b"rw") {
        return Ok((option_name(name)?.into(), value.unwrap_or_default()));
    }
    let yes = match value.as_deref() {
        None | Some(b"true" | b"1") => true,
        Some(b"false" | b"0") => false,
        Some(other) => {
            let name = shown(name);
            return Err(invalid(format!(
                "{name} is {}, neither true nor false",
                shown(other)
            )));
        }
    };
    let read_only = yes != (name == b"rw");
    Ok((if read_only { "ro" } else { "rw" }.to_string(), Vec::new()))
}

/// Splits an option at its first `=` (none can be escaped before it: names hold no backslash).
fn name_and_value(field: &[u8]) -> (&[u8], Option<&[u8]>) {
    match field.iter().position(|&b| b == b'=') {
        Some(at) => (&field[..at], Some(&field[at + 1..])),
        None => (field, None),
    }
}

/// One field of `--mount`, quotes and escapes resolved.
struct Field {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
    /// The value with escapes in it; those of a quoted one are made for it.
    raw: Vec<u8>,
}

/// The fields of a CSV record as docker reads it (RFC 4180, Go's encoding/csv), with backslash
/// escapes outside quotes.
fn fields(mut rest: &[u8]) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    loop {
        let is_quoted = rest.first() == Some(&b'"');
        let (bytes, name_end, used) = match is_quoted {
            true => quoted(rest)?,
            false => plain(rest)?,
        };
        if bytes.is_empty() {
            return Err(invalid("an empty field (a comma too many)"));
        }
        fields.push(match name_end {
            Some(end) => Field {
                name: bytes[..end].to_vec(),
                value: Some(bytes[end + 1..].to_vec()),
                // Names that mean anything hold no backslash, so that `end` is the same in both.
                raw: match is_quoted {
                    true => escape(&bytes[end + 1..]),
                    false => rest.get(end + 1..used).unwrap_or_default().to_vec(),
                },
            },
            None => Field {
                name: bytes,
                value: None,
                raw: Vec::new(),
            },
        });
        match rest.get(used) {
            None => return Ok(fields),
            Some(_) => rest = &rest[used + 1..],
        }
    }
}

/// A field's bytes, where in them the first `=` stands, and how much of the text it took.
type Taken = (Vec<u8>, Option<usize>, usize);

fn quoted(text: &[u8]) -> Result<Taken> {
    let (mut out, mut at) = (Vec::new(), 1);
    loop {
        match (text.get(at), text.get(at + 1)) {
            (Some(b'"'), Some(b'"')) => {
                out.push(b'"');
                at += 2;
            }
            (Some(b'"'), None | Some(b',')) => break,
            (Some(b'"'), Some(_)) => {
                return Err(invalid(
                    "a quoted field goes on after its closing quote (quote the whole field, or \
                    write \"\" for a quote)",
                ));
            }
            (Some(&byte), _) => {
                out.push(byte);
                at += 1;
            }
            (None, _) => return Err(invalid("a quoted field has no closing quote")),
        }
    }
    let name_end = out.iter().position(|&b| b == b'=');
    Ok((out, name_end, at + 1))
}

fn plain(text: &[u8]) -> Result<Taken> {
    let end = field_end(text)?;
    let field = &text[..end];
    if split(field, b'"')?.len() > 1 {
        return Err(invalid(
            "a quote inside a field (quote the whole field, \"name=value\", or write \\\")",
        ));
    }
    let name_end = match &split(field, b'=')?[..] {
        [_] => None,
        [name, ..] => Some(unescape(name)?.len()),
        [] => None,
    };
    Ok((unescape(field)?, name_end, end))
}
