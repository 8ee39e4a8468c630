//! Links the unwinder of the compiler's library into the command, where the compiler can say where
//! it lies.
//!
//! std asks for libgcc_s.so only to print backtraces. Opening it at each start costs a tenth of a
//! millisecond (its initialiser executes CPUID, which traps on virtual machines), on a path of
//! which a millisecond is all there is. With the static unwinder in place the linker finds nothing
//! left to ask of the shared one, and drops it (`--as-needed`, which rustc passes).

use std::{path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let asked = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let Ok(answer) = asked else { return };
    let answer = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    // A compiler that has no such file answers with the bare name.
    if let Some(directory) = Path::new(&answer)
        .parent()
        .filter(|directory| directory.is_absolute())
    {
        println!("cargo::rustc-link-search=native={}", directory.display());
        println!("cargo::rustc-link-lib=static:+whole-archive=gcc_eh");
    }
}
