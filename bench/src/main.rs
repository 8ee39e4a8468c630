//! The speed of Culvert, as ratios to native in one run.
//!
//! `bench/run` measures and writes `bench/results/`; `bench/report` puts the table into
//! `docs/figures.md`. Native and culvert runs of one figure follow each other in turn, so that a
//! busy machine troubles both; medians are shown.

#![forbid(unsafe_code)]

mod archives;
mod bindings;
mod compare;
mod figure;
mod fixture;
mod hosts;
mod layers;
mod libraries;
mod linux;
mod mapping;
mod measure;
mod mount;
mod overlay;
mod plfs;
mod plot;
mod publish;
mod starts;
mod tools;
mod writing;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match words.first().map(String::as_str) {
        Some("run") => {
            let only: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let figures = measure::everything(&only);
            println!("\n{}", publish::machine());
            let results = root.join("bench/results");
            if only.is_empty() {
                publish::write(&results, &figures);
            } else {
                publish::write_part(&results, &only.join("-"), &figures);
            }
            ExitCode::SUCCESS
        }
        Some("report") => publish::into_figures(&root),
        _ => {
            eprintln!(
                "usage: bench/run [GROUP]... | bench/report\ngroups: {}",
                measure::GROUPS.map(|(name, _)| name).join(" ")
            );
            ExitCode::from(2)
        }
    }
}
