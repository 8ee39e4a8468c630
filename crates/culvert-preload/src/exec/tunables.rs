//! GLIBC_TUNABLES with more room for static TLS than the program asked for itself.

use alloc::format;
use alloc::vec::Vec;

/// The tunable's value when nobody sets it: `OPTIONAL_TLS`, elf/dl-tls.c.
pub const DEFAULT: u64 = 512;

/// The setting for it.
const TUNABLE: &[u8] = b"glibc.rtld.optional_static_tls=";

/// More than this is no thread's (bytes).
pub const MOST: u64 = 1 << 28;

/// The environment's entry that gives `room` bytes more than the value `tunables` of GLIBC_TUNABLES
/// that is the program's own, if there is one. The last of several settings counts for ld.so, empty
/// ones do not (`parse_tunables`, elf/dl-tunables.c).
pub fn entry(tunables: Option<&[u8]>, room: u64) -> Vec<u8> {
    let separator = if tunables.is_some() { &b":"[..] } else { b"" };
    let tunables = tunables.unwrap_or_default();
    let value = format!("{:#018x}\0", value(tunables) + room);
    [
        b"GLIBC_TUNABLES=",
        tunables,
        separator,
        TUNABLE,
        value.as_bytes(),
    ]
    .concat()
}

/// What [`entry`] made of GLIBC_TUNABLES: the length of the program's own part, if it has one, and
/// the bytes given. None when it made nothing of it: nobody else writes the number like this.
pub fn given(tunables: &[u8]) -> Option<(Option<usize>, u64)> {
    let (front, digits) = tunables.split_at_checked(tunables.len().checked_sub(18)?)?;
    let front = front.strip_suffix(TUNABLE)?;
    let own = match front {
        [] => None,
        _ => Some(front.strip_suffix(b":")?),
    };
    let digits = core::str::from_utf8(digits.strip_prefix(b"0x")?).ok()?;
    let value_given = u64::from_str_radix(digits, 16).ok()?;
    let before = value(own.unwrap_or_default());
    Some((own.map(<[u8]>::len), value_given.saturating_sub(before)))
}

/// The number of bytes that the program's own `tunables` say.
pub fn value(tunables: &[u8]) -> u64 {
    let last = tunables
        .split(|&b| b == b':')
        .filter_map(|setting| setting.strip_prefix(TUNABLE))
        .next_back();
    // As `_dl_strtoul` reads numbers.
    let number = last.and_then(|text| match core::str::from_utf8(text).ok()? {
        hexadecimal if hexadecimal.starts_with("0x") => {
            u64::from_str_radix(&hexadecimal[2..], 16).ok()
        }
        octal if octal.starts_with('0') => u64::from_str_radix(octal, 8).ok(),
        decimal => decimal.parse().ok(),
    });
    number.unwrap_or(DEFAULT).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_tunables_come_back() {
        for own in [
            None,
            Some(&b""[..]),
            Some(b"glibc.malloc.check=3"),
            Some(b"glibc.rtld.optional_static_tls=4096"),
            Some(b"glibc.rtld.optional_static_tls=0x1000:glibc.rtld.nns=6"),
        ] {
            let entry = entry(own, 24576);
            let value = &entry[b"GLIBC_TUNABLES=".len()..entry.len() - 1];
            assert_eq!(given(value), Some((own.map(<[u8]>::len), 24576)));
            assert!(value.starts_with(own.unwrap_or_default()));
            assert_eq!(given(own.unwrap_or_default()), None);
        }
    }

    #[test]
    fn what_is_given_comes_on_top_of_the_programs_own_number() {
        for (own, sum) in [
            (&b""[..], 512 + 0x400),
            (b"glibc.rtld.optional_static_tls=4096", 4096 + 0x400),
            (b"glibc.rtld.optional_static_tls=0x20:x=1", 0x20 + 0x400),
            (b"glibc.rtld.optional_static_tls=010", 8 + 0x400),
        ] {
            let wanted = format!("=0x{sum:016x}\0");
            assert!(
                entry(Some(own), 0x400).ends_with(wanted.as_bytes()),
                "{own:?}"
            );
        }
    }
}
