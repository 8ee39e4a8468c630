//! What a mount is, in words that rules look for.

use crate::mount::Mount;

/// What rules are about: the specification behind `--mount`, or `kernel,type=...`.
pub fn of(mount: &Mount) -> Option<String> {
    match mount {
        // Below a layer everything is done by calls of the driver.
        Mount::Culvert { specification, .. }
            if specification.contains("layer=") || specification.contains("-rate=") =>
        {
            Some(format!("{specification},driven"))
        }
        // Compared with what is behind the kernel.
        Mount::Culvert { specification, .. } if specification.starts_with("type=sdcard") => {
            Some(format!("{specification},kernel"))
        }
        // What is written lies in memory.
        Mount::Culvert { specification, .. } if specification.contains("upperdir=memory:") => {
            Some(format!("{specification},upper=type=memory,driven"))
        }
        Mount::Culvert { specification, .. } => Some(specification.clone()),
        Mount::Kernel {
            driver, options, ..
        } => {
            let driven = match options.contains("layer=") {
                true => "driven,",
                false => "",
            };
            Some(format!("type={driver},{options},{driven}kernel").replace(",,", ","))
        }
        // What is compared with is behind the kernel.
        Mount::Beside(original, ours) => {
            let specification = of(ours)?;
            let kernel = match specification.ends_with(",kernel") {
                true => "",
                false => ",kernel",
            };
            let command = original.command();
            Some(format!("{specification}{kernel},beside={command}"))
        }
        Mount::Original(original) => Some(format!(
            "type=fuse.{0},kernel,beside={0}",
            original.command()
        )),
        Mount::Native | Mount::Filled | Mount::At(_) => None,
    }
}

/// Whether set-user-ID and set-group-ID of files are not compared: what root writes through a
/// kernel mount of a tree clears them, since the kernel does it with the rights of who registered
/// the backing file, which would else leave them alone for everybody. POSIX (write) lets every
/// write clear them. What is given away when it is made has none, as with bindfs, which
/// makes nothing with them.
pub fn clears_set_id(specification: &str) -> bool {
    let gives = specification.starts_with("type=bind,map=");
    gives
        || specification.contains("beside=bindfs")
        || ["passthrough", "bind"]
            .iter()
            .any(|kind| specification == format!("type={kind},kernel"))
        || specification.starts_with("type=union,") && specification.ends_with(",kernel")
}

/// Whether links of directories are those of several, or one, as where a file is a directory too;
/// mergerfs shows those of one, an overlay one.
pub fn adds_links(specification: &str) -> bool {
    let union = specification.starts_with("type=union");
    let several =
        specification.contains("func.mkdir=all") || specification.contains("beside=mergerfs");
    union && several
        || ["type=plfs", "type=overlay"]
            .iter()
            .any(|kind| specification.starts_with(kind))
}
