//! What goes wrong, for the log: standard error, which `culvert mount` leads where the user wants
//! it.

use std::{
    fmt,
    io::{self, Write},
};

/// One line. A log that cannot be written must not end the server, as `eprintln!` would.
pub fn report(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "culvert: {line}");
}
