//! `culvert drivers`: the file systems there are, and their options.

use crate::failure::Failure;
use culvert_drivers::DriverInfo;
use std::fmt::Write;

/// Columns of a terminal, for wrapped text.
const COLUMNS: usize = 80;

/// The list of drivers, or what there is to say about `name`.
pub fn describe(name: Option<&str>) -> Result<String, Failure> {
    match name {
        Some(name) => culvert_drivers::find(name)
            .map(one)
            .map_err(|error| Failure::new(error.to_string())),
        None => Ok(culvert_drivers::list()
            .map(|driver| entry(driver.name, driver.summary, 0))
            .collect()),
    }
}

fn one(driver: &DriverInfo) -> String {
    let mut text = entry(driver.name, driver.summary, 0);
    text.push_str("\nOptions:\n");
    for option in driver.options {
        let name = match option.value {
            "" => option.name.into(),
            value => format!("{}={value}", option.name),
        };
        text.push_str(&entry(&name, option.summary, 2));
    }
    let _ = write!(
        text,
        "\nUse:\n  culvert run -v SOURCE:TARGET[:OPTION[=VALUE],...] -- COMMAND\n  \
         culvert run --mount type={},source=SOURCE,target=TARGET[,OPTION[=VALUE]] -- COMMAND\n",
        driver.name
    );
    text
}

/// A word and its explanation, wrapped beside it.
fn entry(word: &str, text: &str, indent: usize) -> String {
    let column = indent + 18;
    let mut out = format!("{:indent$}{word}", "");
    let mut at = out.chars().count();
    if at + 1 >= column {
        out.push('\n');
        at = 0;
    }
    let _ = write!(out, "{:width$}", "", width = column - at);
    at = column;
    for (index, part) in text.split_whitespace().enumerate() {
        let length = part.chars().count();
        if index > 0 && at + 1 + length > COLUMNS {
            let _ = write!(out, "\n{:column$}", "");
            at = column;
        } else if index > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(part);
        at += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_and_option_is_described_within_a_terminal() {
        let list = describe(None).unwrap();
        for driver in culvert_drivers::list() {
            assert!(list.contains(driver.name));
            let text = describe(Some(driver.name)).unwrap();
            for option in driver.options {
                assert!(text.contains(&format!("\n  {}", option.name)), "{text}");
            }
            assert!(
                text.lines()
                    .all(|line| line.chars().count() <= COLUMNS + 10),
                "{text}"
            );
        }
        assert!(
            describe(Some("floppy"))
                .unwrap_err()
                .to_string()
                .contains("archive")
        );
    }
}
