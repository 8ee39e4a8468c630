//! `culvert mount -t fuse.NAME`: the server makes the kernel mount itself, as it does without
//! Culvert; only its command line is made here.

use crate::{
    failure::{Failure, path, reason, shown},
    fuse::command::{self, By},
    kernel_mount::Mount,
};
use std::{os::unix::process::CommandExt, process::Command};

/// Becomes the server of `asked`; comes back only with the reason why not.
pub fn mount(asked: Mount) -> Result<u8, Failure> {
    let refused = [
        (asked.restart, "--restart"),
        (asked.settings.trace, "--trace"),
        (asked.log.is_some(), "--log"),
        (!asked.settings.with.is_empty(), "--with"),
        (!asked.settings.without.is_empty(), "--without"),
    ];
    if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
        let what = format!("{option} is for file systems of Culvert's own");
        return Err(Failure::new(what).advice("give the server its own options, by -o"));
    }
    let (foreground, allow_other) = (asked.foreground, asked.rights.allow_other);
    let mut mount = asked.request.into_mount("");
    if allow_other {
        mount.options.push(("allow_other".to_owned(), Vec::new()));
    }
    let by = match foreground {
        true => By::KernelInForeground,
        false => By::Kernel,
    };
    let target = path(&mount.target);
    let words = match mount.option("command") {
        Some(line) => {
            // Writable a mount is anyway.
            let others = |(name, _): &&(String, _)| !matches!(name.as_str(), "command" | "rw");
            let options = mount.options.iter().filter(others);
            command::typed(line, &mount, options, target, target.as_os_str())?
        }
        None => command::words(&mount, &mount.options, target, by)?,
    };
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    Err(Failure::new(format!(
        "{}: {}",
        shown(&words[0]),
        reason(&error)
    )))
}
