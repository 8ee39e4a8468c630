//! Numbers in tar headers: octal text, or base 256 where octal is too narrow (GNU tar, star; "Basic
//! Tar Format" in the GNU manual).

/// The number in `field`, none when it is none or does not fit.
pub fn parse(field: &[u8]) -> Option<i64> {
    match field.first() {
        Some(&first) if first & 0x80 != 0 => base256(field, first),
        _ => octal(field),
    }
}

/// Big-endian two's complement; the first byte's upper bit marks the form, the next is the sign.
fn base256(field: &[u8], first: u8) -> Option<i64> {
    let negative = first & 0x40 != 0;
    let head = if negative { first } else { first & 0x7f };
    let mut number = if negative { -1i64 } else { 0 };
    for (at, &byte) in field.iter().enumerate() {
        let byte = if at == 0 { head } else { byte };
        number = number.checked_mul(256)?;
        // The product's low byte is zero, also of a negative one.
        number |= i64::from(byte);
    }
    Some(number)
}

/// Octal digits, spaces before, a space or NUL behind; nothing at all is 0, as old archives have
/// it.
fn octal(field: &[u8]) -> Option<i64> {
    let start = field.iter().position(|&byte| byte != b' ');
    let field = &field[start.unwrap_or(field.len())..];
    let end = field.iter().position(|&byte| matches!(byte, b' ' | 0));
    let mut number = 0i64;
    for &digit in &field[..end.unwrap_or(field.len())] {
        if !matches!(digit, b'0'..=b'7') {
            return None;
        }
        number = number
            .checked_mul(8)?
            .checked_add(i64::from(digit - b'0'))?;
    }
    Some(number)
}

/// Decimal digits only.
pub fn decimal(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for &digit in field {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_and_base_256() {
        let table: [(&[u8], Option<i64>); 14] = [
            (b"0000644\0", Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"00000000012", Some(10)),
            (b"\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"12x4", None),
            (b"8", None),
            (b"-1", None),
            (b"\x80\0\0\0\0\0\0\x01", Some(1)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x02\0", Some(512)),
            (b"\xff\xff\xff\xff", Some(-1)),
            (
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00",
                Some(-256),
            ),
            (
                b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                Some(i64::MAX),
            ),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
        ];
        for (field, number) in table {
            assert_eq!(parse(field), number, "{field:?}");
        }
        assert_eq!(parse(b"777777777777777777777777"), None);
        assert_eq!(decimal(b"12"), Some(12));
        for bad in [&b""[..], b"+1", b" 1", b"99999999999999999999999"] {
            assert_eq!(decimal(bad), None);
        }
    }
}
