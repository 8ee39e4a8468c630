//! Two file systems on one source, as two processes have them.

use super::{Report, caller, sinks};
use crate::{Errno, File, FileSystem, OpenFlags, Opened, Result};
use std::{boxed::Box, format};

/// Checks what two file systems on one source, empty and writable, see of each other's changes: at
/// once, or where [`Capabilities::size_at_sync`](crate::Capabilities::size_at_sync) says so, when
/// both have synced, and by a new open.
pub fn sharing(pair: [&dyn FileSystem; 2]) -> Report {
    let mut report = Report::default();
    report.part("two processes", |report| {
        let seen = check(pair, report);
        report.works("seen-in-time", "a file of two processes", seen);
    });
    report
}

fn opened(fs: &dyn FileSystem) -> Result<Box<dyn File>> {
    let entry = fs.lookup(&caller(), fs.root(), b"shared")?;
    driven(fs.open(&caller(), entry.attributes.node, OpenFlags::READ_WRITE)?)
}

fn driven(opened: Opened) -> Result<Box<dyn File>> {
    match opened {
        Opened::Driven(file) => Ok(file),
        // The kernel's, which sees everything.
        Opened::Backed(_) => Err(Errno::EOPNOTSUPP.into()),
    }
}

fn check([one, two]: [&dyn FileSystem; 2], report: &mut Report) -> Result<()> {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let made = one.create(&caller(), one.root(), b"shared", flags, 0o644)?;
    let (writer, reader) = (driven(made.1)?, opened(two)?);
    let late = one.capabilities().size_at_sync;
    let mut end = 0;
    for step in 0..8u8 {
        // It has looked at what was there before.
        reader.attributes(&caller())?;
        let bytes = [step; 100];
        end += match step % 2 {
            0 => writer.write_at(end, &mut &bytes[..])? as u64,
            _ => writer.append(&mut &bytes[..])?.1 as u64,
        };
        let place = format!("after {end} bytes");
        if late {
            writer.sync(false)?;
            let by_open = opened(two)?.attributes(&caller())?.size;
            report.equal("seen-in-time", &format!("{place}, opened"), by_open, end);
            reader.sync(false)?;
        }
        let size = reader.attributes(&caller())?.size;
        report.equal("seen-in-time", &place, size, end);
        let last = sinks::read(&*reader, end - 100, 100)?;
        report.equal("seen-in-time", &place, &last[..], &bytes[..]);
    }
    Ok(())
}
