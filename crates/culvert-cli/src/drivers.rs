//! `culvert drivers`: the file systems there are, and their options.

use crate::failure::Failure;
use culvert_drivers::DriverInfo;
use std::fmt::Write;

/// Columns of a terminal, for wrapped text.
const COLUMNS: usize = 80;

/// The list of drivers and layers, or what there is to say about `name`.
pub fn describe(name: Option<&str>) -> Result<String, Failure> {
    let all = culvert_drivers::list();
    let line = |info: &DriverInfo| entry(info.name, info.summary, 0);
    match name {
        // There may be both.
        Some(name) => match (
            culvert_drivers::find(name),
            culvert_drivers::layers::find(name),
        ) {
            (Ok(driver), Ok(layer)) if has_all(driver, layer) => {
                Ok(one(driver) + &use_of_layer(layer))
            }
            (Ok(driver), Ok(layer)) => Ok(format!("{}\n{}", one(driver), one_layer(layer))),
            (Ok(driver), Err(_)) => Ok(one(driver)),
            (Err(_), Ok(layer)) => Ok(one_layer(layer)),
            (Err(error), Err(_)) => Err(Failure::new(error.to_string())),
        },
        None => {
            let drivers: String = all.map(line).collect();
            let layers: String = culvert_drivers::layers::list().map(line).collect();
            Ok(format!("{drivers}\nLayers over them:\n{layers}"))
        }
    }
}

/// Whether the options of `layer` are all those of `driver`, too.
fn has_all(driver: &DriverInfo, layer: &DriverInfo) -> bool {
    let has = |option| driver.options.iter().any(|one| one == option);
    layer.options.iter().all(has)
}

/// Name, summary and options; `prefix` stands before the options' names.
fn head(info: &DriverInfo, prefix: &str) -> String {
    let mut text = entry(info.name, info.summary, 0);
    text.push_str("\nOptions:\n");
    for option in info.options.iter() {
        let name = match option.value {
            "" => format!("{prefix}{}", option.name),
            value => format!("{prefix}{}={value}", option.name),
        };
        text.push_str(&entry(&name, option.summary, 2));
    }
    text
}

fn one_layer(layer: &DriverInfo) -> String {
    head(layer, &format!("{}.", layer.name)) + &use_of_layer(layer)
}

fn use_of_layer(layer: &DriverInfo) -> String {
    let name = layer.name;
    format!(
        "\nUse, over any driver:\n  culvert run -v \
        SOURCE:TARGET:layer={name}[,{name}.OPTION=VALUE,...] -- COMMAND\n"
    )
}

fn one(driver: &DriverInfo) -> String {
    let mut text = head(driver, "");
    let _ = write!(
        text,
        "\nUse:\n  culvert run -v SOURCE:TARGET[:OPTION[=VALUE],...] -- COMMAND\n  \
         culvert run --mount type={},source=SOURCE,target=TARGET[,OPTION...] -- COMMAND\n",
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
        let drivers = culvert_drivers::list().map(|driver| (driver, String::new()));
        let layers = culvert_drivers::layers::list()
            .filter(|layer| !is_driver(layer))
            .map(|layer| (layer, format!("{}.", layer.name)));
        for (driver, prefix) in drivers.chain(layers) {
            assert!(list.contains(driver.name));
            let text = describe(Some(driver.name)).unwrap();
            for option in driver.options.iter() {
                assert!(
                    text.contains(&format!("\n  {prefix}{}", option.name)),
                    "{text}"
                );
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

    /// Whether a driver of the same name has all options of the layer, which are told once then.
    fn is_driver(layer: &DriverInfo) -> bool {
        culvert_drivers::find(layer.name).is_ok_and(|driver| has_all(driver, layer))
    }

    const PAGE: &str = include_str!("../../../man/culvert-drivers.1");

    /// The options that the section `name` of the manual page lists, in order.
    fn listed(name: &str) -> Vec<&'static str> {
        let mut sections = PAGE.split(".Ss ").skip(1);
        let section = sections.find(|section| section.lines().next() == Some(name));
        let section =
            section.unwrap_or_else(|| panic!("man/culvert-drivers.1 has no section {name}"));
        let section = section.split(".Sh ").next().unwrap_or_default();
        let items = section
            .lines()
            .filter_map(|line| line.strip_prefix(".It Cm "));
        items
            .map(|item| item.split(' ').next().unwrap_or(item))
            .collect()
    }

    #[test]
    fn the_manual_page_has_every_option() {
        for driver in culvert_drivers::list() {
            let options: Vec<_> = driver.options.iter().map(|option| option.name).collect();
            assert_eq!(listed(driver.name), options, "{}", driver.name);
        }
        for layer in culvert_drivers::layers::list() {
            let name =
                |option: culvert_drivers::OptionInfo| format!("{}.{}", layer.name, option.name);
            let options: Vec<_> = layer.options.iter().map(name).collect();
            if is_driver(layer) && !PAGE.contains(&format!("\n.Ss layer {}\n", layer.name)) {
                continue;
            }
            let section = match culvert_drivers::find(layer.name) {
                Ok(driver) => format!("layer {}", driver.name),
                Err(_) => layer.name.to_owned(),
            };
            assert_eq!(listed(&section), options, "{section}");
        }
        assert_eq!(listed("Layers"), ["layer"]);
    }
}
