//! The table, the file of figures, and the page of figures.

use crate::figure::{Figure, Judged, Rounded};
use crate::plot;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The markers in `docs/figures.md` between which the table goes.
const MARKERS: [&str; 2] = ["<!-- bench:begin -->", "<!-- bench:end -->"];

/// The figures as tables in markdown: one of single figures, then one for each group with columns.
pub fn tables(figures: &[Figure]) -> String {
    let mut text = String::new();
    let (single, grids): (Vec<&Figure>, Vec<&Figure>) =
        figures.iter().partition(|figure| figure.column.is_empty());
    if !single.is_empty() {
        text += &singles(&single);
    }
    for group in in_order(grids.iter().map(|figure| figure.group)) {
        let members: Vec<&Figure> = grids
            .iter()
            .copied()
            .filter(|figure| figure.group == group)
            .collect();
        let _ = write!(text, "\n**{group}**\n\n{}", grid(&members));
    }
    text
}

/// All tables, and where and when they were measured.
fn page(figures: &[Figure]) -> String {
    format!("{}\n{}\n", tables(figures), machine())
}

/// Each once, in the order of first appearance.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// One line for each thing measured, one column for each way to do it: parts of the native speed.
fn grid(figures: &[&Figure]) -> String {
    let columns = in_order(figures.iter().map(|figure| figure.column));
    let mut text = String::from("| what | native |");
    for column in &columns {
        let _ = write!(text, " {column} |");
    }
    text += "\n|---|---:|";
    text += &"---:|".repeat(columns.len());
    text.push('\n');
    for what in in_order(figures.iter().map(|figure| figure.what.as_str())) {
        let row: Vec<&&Figure> = figures
            .iter()
            .filter(|figure| figure.what == what)
            .collect();
        let native = row[0].native.map(|value| amount(value, row[0].unit));
        let _ = write!(text, "| {what} | {} |", native.unwrap_or_default());
        for column in &columns {
            let cell = row.iter().find(|figure| figure.column == *column);
            let _ = write!(
                text,
                " {} |",
                cell.map(|figure| cell_text(figure)).unwrap_or_default()
            );
        }
        text.push('\n');
    }
    text
}

/// `0.95 ± 0.02, ≥ 0.9 met`; of a difference `1200 ns, +200 ns ≤ +1000 ns met`.
fn cell_text(figure: &Figure) -> String {
    let mut text = match figure.judged {
        Judged::Speed(_) | Judged::SpeedStated => figure.result(),
        _ => amount(figure.culvert, figure.unit),
    };
    if let Some((low, high)) = figure.spread {
        let _ = write!(text, " ± {}", Rounded((high - low) / 2.0));
    }
    let added = format!("{} ≤ {}", figure.result(), figure.target());
    match (figure.passes(), &figure.judged) {
        (Some(true), Judged::Speed(least)) => format!("{text}, ≥ {least} met"),
        (Some(false), Judged::Speed(least)) => format!("**{text}, ≥ {least} missed**"),
        (Some(true), Judged::Figure(most)) => format!("{text}, ≤ {most} met"),
        (Some(false), Judged::Figure(most)) => format!("**{text}, ≤ {most} missed**"),
        (Some(true), Judged::Added(_)) => format!("{text}, {added} met"),
        (Some(false), Judged::Added(_)) => format!("**{text}, {added} missed**"),
        _ => text,
    }
}

/// A value in the unit that people read.
fn amount(value: f64, unit: &str) -> String {
    match unit {
        "" => format!("{value:.0}"),
        "ns" if value >= 1e6 => format!("{} ms", Rounded(value / 1e6)),
        "ns" if value >= 1e4 => format!("{} µs", Rounded(value / 1e3)),
        _ => format!("{} {unit}", Rounded(value)),
    }
}

/// One line for each figure, with all that is known of it.
fn singles(figures: &[&Figure]) -> String {
    let mut text = String::from(
        "| what | native | culvert | result | target | | beside \
        |\n|---|---:|---:|---:|---:|---|---|\n",
    );
    for figure in figures {
        let number = |value: f64| format!("{} {}", Rounded(value), figure.unit);
        let mark = match figure.passes() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        let mut beside: Vec<String> = figure
            .beside
            .iter()
            .map(|(name, value)| format!("{name} {}", number(*value)))
            .collect();
        if !figure.note.is_empty() {
            beside.push(figure.note.clone());
        }
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {mark} | {} |",
            figure.what,
            figure.native.map(number).unwrap_or_default(),
            number(figure.culvert),
            figure.result(),
            figure.target(),
            beside.join("; ")
        );
    }
    text
}

/// Where and when this was measured.
pub fn machine() -> String {
    let said = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("there is a shell");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    format!(
        "Measured {} on {}, {} processors, Linux {};\nmedians, native and culvert in turn; ± is half \
        of the way between the quartiles.\nOther work on the machine: load {}.",
        said("date -u +%F"),
        said("sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1"),
        said("nproc"),
        said("uname -r"),
        said("cut -d ' ' -f 1 /proc/loadavg")
    )
}

/// The figures for programs.
fn json(figures: &[Figure]) -> String {
    let lines: Vec<String> = figures
        .iter()
        .map(|figure| {
            let beside: Vec<String> = figure.beside.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
            format!(
                "  {{\"group\": \"{}\", \"what\": \"{}\", \"column\": \"{}\", \"unit\": \"{}\", \"native\": {}, \"culvert\": {}, \"result\": \"{}\", \"target\": \"{}\", \"met\": {}, \"beside\": {{{}}}}}",
                figure.group,
                figure.what.replace('`', ""),
                figure.column.replace('`', ""),
                figure.unit,
                figure.native.map_or("null".to_owned(), |value| value.to_string()),
                figure.culvert,
                figure.result(),
                figure.target(),
                figure.passes().map_or("null".to_owned(), |met| met.to_string()),
                beside.join(", ")
            )
        })
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Writes all three forms.
pub fn write(directory: &Path, figures: &[Figure]) {
    fs::create_dir_all(directory).expect("the checkout can be written");
    for (name, text) in [
        ("table.md", page(figures)),
        ("figures.json", json(figures)),
        ("figures.svg", plot::svg(figures)),
    ] {
        fs::write(directory.join(name), text).expect("the checkout can be written");
    }
}

/// Writes the tables of some groups, `name`.
pub fn write_part(directory: &Path, name: &str, figures: &[Figure]) {
    fs::create_dir_all(directory).expect("the checkout can be written");
    let file = directory.join(format!("{name}.md"));
    fs::write(file, page(figures)).expect("the checkout can be written");
}

/// Puts the last table into `docs/figures.md`.
pub fn into_figures(root: &Path) -> ExitCode {
    let (table, figures) = (
        root.join("bench/results/table.md"),
        root.join("docs/figures.md"),
    );
    let (Ok(table), Ok(text)) = (fs::read_to_string(&table), fs::read_to_string(&figures)) else {
        eprintln!(
            "bench: {} or {} is missing: run bench/run first",
            table.display(),
            figures.display()
        );
        return ExitCode::FAILURE;
    };
    let (Some(begin), Some(end)) = (text.find(MARKERS[0]), text.find(MARKERS[1])) else {
        eprintln!(
            "bench: {} has no place between {} and {}",
            figures.display(),
            MARKERS[0],
            MARKERS[1]
        );
        return ExitCode::FAILURE;
    };
    let new = format!(
        "{}{}\n\n{}\n{}",
        &text[..begin],
        MARKERS[0],
        table,
        &text[end..]
    );
    fs::write(&figures, new).expect("the checkout can be written");
    ExitCode::SUCCESS
}

#[test]
fn a_cell_says_whether_its_target_is_met() {
    for (culvert, judged, want) in [
        (500.0, Judged::Speed(0.9), "2.00, ≥ 0.9 met"),
        (2000.0, Judged::Speed(0.9), "**0.50, ≥ 0.9 missed**"),
        (
            1200.0,
            Judged::Added(1000.0),
            "1200 ns, +200 ns ≤ +1000 ns met",
        ),
        (
            2500.0,
            Judged::Added(1000.0),
            "**2500 ns, +1500 ns ≤ +1000 ns missed**",
        ),
        (1200.0, Judged::AddedStated, "1200 ns"),
    ] {
        let figure = Figure::new("group", "what", Some(1000.0), culvert, "ns", judged);
        assert_eq!(cell_text(&figure), want);
    }
}
