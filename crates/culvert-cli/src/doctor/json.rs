//! JSON (RFC 8259), as much as a report needs.

use std::fmt;

/// A value to be written.
#[derive(Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Number(u64),
    /// `true` or `false`.
    Flag(bool),
    /// An array.
    List(Vec<Value>),
    /// An object; members keep their order.
    Object(Vec<(&'static str, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => string(text, f),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    string(name, f)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn string(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            character if (character as u32) < 0x20 => write!(f, "\\u{:04x}", character as u32)?,
            character => write!(f, "{character}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_standard_says() {
        let value = Value::Object(vec![
            ("a", "x\"\\\n\u{1}é".into()),
            ("b", Value::List(vec![1usize.into(), true.into()])),
            ("c", Value::List(vec![])),
        ]);
        assert_eq!(
            value.to_string(),
            r#"{"a":"x\"\\\n\u0001é","b":[1,true],"c":[]}"#
        );
    }
}
