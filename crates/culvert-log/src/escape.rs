//! Names as text: in a log each record is one line, whatever a name holds.

use std::fmt::Write;

/// `bytes` as a part of a line: control characters and backslashes are escaped as in C, bytes that
/// are no UTF-8 as `\xHH`.
pub fn for_line(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\\' => out.push_str("\\\\"),
                letter if letter.is_control() => {
                    let _ = write!(out, "\\x{:02x}", letter as u32);
                }
                letter => out.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// `bytes` as a JSON string, with its quotes. A byte that is no UTF-8 is the lone surrogate U+DC00
/// plus the byte, as in Python's file names (PEP 383).
pub fn for_json(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                letter if (letter as u32) < 0x20 || letter == '\x7f' => {
                    let _ = write!(out, "\\u{:04x}", letter as u32);
                }
                letter => out.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\udc{byte:02x}");
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_one_string() {
        let name = b"a\nb\\c\x01\xff\xc3\xa4\"";
        assert_eq!(for_line(name), "a\\nb\\\\c\\x01\\xff\u{e4}\"");
        assert_eq!(for_json(name), "\"a\\u000ab\\\\c\\u0001\\udcff\u{e4}\\\"\"");
    }
}
