//! What is said of two results that differ.

use crate::process::Finished;

/// Standard error without the warnings of culvert itself ("not intercepted, because ...").
pub(super) fn without_our_lines(mut finished: Finished) -> Finished {
    let kept = finished
        .stderr
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"culvert: "));
    finished.stderr = kept.flatten().copied().collect();
    finished
}

/// A command line for people.
pub(super) fn shown(argv: &[&str]) -> String {
    argv.iter()
        .map(|word| {
            if word.contains([' ', '\n', '$']) {
                format!("'{word}'")
            } else {
                (*word).to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The lines in which two results differ, each with its number, as far as they are worth reading.
pub(super) fn difference(native: &Finished, ours: &Finished) -> String {
    const MOST: usize = 60;
    let mut found = Vec::new();
    for (what, left, right) in [
        ("standard output", native.text(), ours.text()),
        ("standard error", native.errors(), ours.errors()),
        ("status", native.status.clone(), ours.status.clone()),
    ] {
        let (left, right): (Vec<&str>, Vec<&str>) =
            (left.lines().collect(), right.lines().collect());
        for number in 0..left.len().max(right.len()) {
            let (a, b) = (left.get(number), right.get(number));
            if a != b {
                found.push(format!(
                    "{what}, line {}\n  native:  {a:?}\n  culvert: {b:?}",
                    number + 1
                ));
                // From here on one side may only be shifted.
                if left.len() != right.len() && found.len() > 5 {
                    break;
                }
            }
        }
    }
    if found.is_empty() {
        return "in bytes that are no text, or at the very end".to_owned();
    }
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    format!(
        "{}{}",
        found.join("\n"),
        if more > 0 {
            format!("\n... and {more} more")
        } else {
            String::new()
        }
    )
}
