//! `culvert completion SHELL`: what a shell completes command lines of culvert by, made of the
//! table of words.

mod bash;
mod fish;
mod zsh;

use crate::failure::Failure;
use crate::words::{Flag, SHELLS};

/// The script for `shell`.
pub fn script(shell: &str) -> Result<String, Failure> {
    match shell {
        "bash" => Ok(bash::script()),
        "zsh" => Ok(zsh::script()),
        "fish" => Ok(fish::script()),
        other => Err(Failure::new(format!(
            "no completion for \"{}\"",
            crate::failure::shown(other)
        ))
        .advice(format!("there is one for: {}", SHELLS.join(", ")))),
    }
}

/// The names of `flag`, as typed.
fn names(flag: &Flag) -> Vec<String> {
    let short = flag.short.map(|letter| format!("-{letter}"));
    let long = flag.long.map(|name| format!("--{name}"));
    short.into_iter().chain(long).collect()
}

/// What shows the targets of mounts of ours: field 2 of /proc/mounts, whose blanks are written in
/// octal (proc_pid_mounts(5)).
const MOUNTED: &str = "awk '$3 ~ /culvert/ { print $2 }' /proc/mounts 2>/dev/null";
