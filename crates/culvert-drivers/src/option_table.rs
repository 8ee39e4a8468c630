//! The options of drivers and layers, as they are shown and as their names are checked.

/// An option of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like; empty when it takes none.
    pub value: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// The options of a driver, in order.
///
/// It is text, a line for each option: three addresses for each would be relocated by ld.so in
/// every process that has the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionTable(pub(crate) &'static [&'static str]);

/// The text of options: `(name, value, summary)`, literals, for each.
macro_rules! option_lines {
    ($(($name:literal, $value:literal, $summary:literal)),* $(,)?) => {
        concat!($($name, "\t", $value, "\t", $summary, "\n"),*)
    };
}

/// A table of options: `(name, value, summary)`, literals, for each.
macro_rules! option_table {
    ($($options:tt)*) => {
        $crate::OptionTable(&[$crate::option_table::option_lines!($($options)*)])
    };
}

pub(crate) use {option_lines, option_table};

impl OptionTable {
    /// No options.
    pub const EMPTY: Self = Self(&[]);

    /// The options, one after the other.
    pub fn iter(self) -> impl Iterator<Item = OptionInfo> + Clone {
        let lines = self.0.iter().flat_map(|text| text.lines());
        lines.map(|line| {
            let (name, rest) = line.split_once('\t').unwrap_or((line, ""));
            let (value, summary) = rest.split_once('\t').unwrap_or((rest, ""));
            OptionInfo {
                name,
                value,
                summary,
            }
        })
    }

    /// Whether one of them is called `name`.
    pub fn has(self, name: &str) -> bool {
        self.iter().any(|option| option.name == name)
    }
}
