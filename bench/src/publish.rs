//! The table, the file of figures, and the README.

use crate::figure::{Figure, Rounded};
use crate::plot;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The markers in the README between which the table goes.
const MARKERS: [&str; 2] = ["<!-- bench:begin -->", "<!-- bench:end -->"];

/// The figures as a table in markdown.
pub fn table(figures: &[Figure]) -> String {
    let mut text = String::from(
        "| what | native | culvert | result | target | | beside |\n|---|---:|---:|---:|---:|---|---|\n",
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
    let _ = write!(text, "\n{}\n", machine());
    text
}

/// Where and when this was measured.
fn machine() -> String {
    let said = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("there is a shell");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    format!(
        "Measured {} on {}, {} processors, Linux {}; medians, native and culvert in turn. Other work on the machine: load {}.",
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
                "  {{\"group\": \"{}\", \"what\": \"{}\", \"unit\": \"{}\", \"native\": {}, \"culvert\": {}, \"result\": \"{}\", \"target\": \"{}\", \"met\": {}, \"beside\": {{{}}}}}",
                figure.group,
                figure.what.replace('`', ""),
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
        ("table.md", table(figures)),
        ("figures.json", json(figures)),
        ("figures.svg", plot::svg(figures)),
    ] {
        fs::write(directory.join(name), text).expect("the checkout can be written");
    }
}

/// Puts the last table into the README.
pub fn into_readme(root: &Path) -> ExitCode {
    let (table, readme) = (root.join("bench/results/table.md"), root.join("README.md"));
    let (Ok(table), Ok(text)) = (fs::read_to_string(&table), fs::read_to_string(&readme)) else {
        eprintln!(
            "bench: {} or {} is missing: run bench/run first",
            table.display(),
            readme.display()
        );
        return ExitCode::FAILURE;
    };
    let (Some(begin), Some(end)) = (text.find(MARKERS[0]), text.find(MARKERS[1])) else {
        eprintln!(
            "bench: {} has no place between {} and {}",
            readme.display(),
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
    fs::write(&readme, new).expect("the checkout can be written");
    ExitCode::SUCCESS
}
