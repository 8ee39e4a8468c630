//! Whether a container is whole, and making it so.

use crate::open;
use crate::scan::{Progress, Scan};
use culvert_drivers::plfs::layout::{self, INDEX, META, Meta, OPEN, Record};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes reading fail or lie.
    pub damage: Vec<String>,
    /// What [`recover`] puts in order, and nobody loses anything by.
    pub traces: Vec<String>,
    /// Records looked at.
    pub records: u64,
}

/// Looks at every record.
pub fn check(container: &Path, progress: Progress<'_>) -> io::Result<Findings> {
    let scan = Scan::new(container)?;
    let (mut found, all) = (Findings::default(), scan.count());
    let mut reach = 0;
    for dropping in &scan.droppings {
        let name = scan.short(&dropping.path);
        if dropping.length % Record::SIZE as u64 != 0 {
            found.traces.push(format!("{name}: ends within a record"));
        }
        let mut data: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        dropping.records(&mut |number, record| {
            found.records += 1;
            if found.records % (1 << 16) == 0 {
                progress(found.records, all);
            }
            let Some(record) = record else {
                found
                    .damage
                    .push(format!("{name}: record {number} is of no write"));
                return Ok(());
            };
            reach = reach.max(record.reach());
            let length = data.entry(record.id).or_insert_with(|| {
                let status = fs::symlink_metadata(dropping.data(record.id)?).ok()?;
                status.is_file().then_some(status.len())
            });
            match *length {
                None if record.length > 0 => {
                    let id = record.id;
                    found
                        .damage
                        .push(format!("{name}: record {number}: no data dropping of {id}"));
                }
                Some(length) if record.physical + record.length > length => found.damage.push(
                    format!("{name}: record {number}: its data dropping ends before its bytes"),
                ),
                _ => {}
            }
            Ok(())
        })?;
    }
    let (mut end, mut open) = (None, false);
    for name in meta(&scan)? {
        if name.starts_with(OPEN) {
            open = true;
            let name = Path::new(OsStr::from_bytes(&name)).display().to_string();
            found.traces.push(format!(
                "meta/{name}: somebody writes, or was killed when it did"
            ));
        } else if let Some(meta) = Meta::parse(&name) {
            end = Some(end.unwrap_or(0).max(meta.end));
        }
    }
    if let Some(end) = end.filter(|end| !open && *end != reach) {
        let text = format!("meta: the file reaches to {reach}, its names say {end}");
        found.traces.push(text);
    }
    Ok(found)
}

/// The names in `meta`.
fn meta(scan: &Scan) -> io::Result<Vec<Vec<u8>>> {
    match open::directory(&scan.path.join(OsStr::from_bytes(META))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        dir => open::names(dir?),
    }
}

/// Puts in order what writers that were killed have left: torn records, records of being open,
/// sizes in `meta`. What was done, a line each. Nothing, with a reason, while somebody writes.
pub fn recover(container: &Path, progress: Progress<'_>) -> io::Result<Vec<String>> {
    let scan = Scan::new(container)?;
    // Locked until all is done.
    let mut held = Vec::new();
    for dropping in &scan.droppings {
        let file = dropping.open(false)?;
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        if rustix::fs::flock(&file, lock).is_err() {
            let name = scan.short(&dropping.path);
            return Err(crate::wrong(format!(
                "{name}: a process of this host still writes it"
            )));
        }
        held.push(file);
    }
    let found = check(container, progress)?;
    if let Some(first) = found.damage.first() {
        let rest = found.damage.len() - 1;
        return Err(crate::wrong(format!(
            "{first} (and {rest} more): this cannot be repaired"
        )));
    }
    let mut done = Vec::new();
    for dropping in &scan.droppings {
        if dropping.length % Record::SIZE as u64 != 0 {
            let file = dropping.open(true)?;
            let length = file.metadata()?.len();
            file.set_len(length - length % Record::SIZE as u64)?;
            done.push(format!(
                "{}: cut a torn record off",
                scan.short(&dropping.path)
            ));
        }
    }
    if found.traces.iter().all(|trace| !trace.starts_with("meta")) {
        return Ok(done);
    }
    let mut left: BTreeMap<Vec<u8>, (u64, u64, u64)> = BTreeMap::new();
    for dropping in &Scan::new(container)?.droppings {
        let name = dropping
            .path
            .file_name()
            .unwrap_or_default()
            .as_bytes()
            .to_vec();
        let Some(own) = layout::dropping(INDEX, &name) else {
            continue;
        };
        let changed = dropping.open(false)?.metadata()?.modified()?;
        let changed = changed
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_micros() as u64);
        let of_host = left.entry(own.host.to_vec()).or_default();
        of_host.2 = of_host.2.max(changed);
        dropping.records(&mut |_, record| {
            if let Some(record) = record {
                of_host.0 = of_host.0.max(record.reach());
                of_host.1 += record.length;
            }
            Ok(())
        })?;
    }
    // First what is right, then what was not: at each moment somebody who asks gets an answer that
    // is not too small.
    let old = meta(&scan)?;
    let mut right = Vec::new();
    for (host, (end, bytes, changed)) in &left {
        let (seconds, micros) = (changed / 1_000_000, changed % 1_000_000);
        let (end, bytes) = (*end, *bytes);
        right.push(
            Meta {
                end,
                bytes,
                seconds,
                micros,
                host,
            }
            .name(),
        );
    }
    let place = open::directory_made(open::directory(&scan.path)?, META)?;
    for name in right.iter().filter(|name| !old.contains(name)) {
        open::new_file(&place, OsStr::from_bytes(name))?;
    }
    for name in old {
        if !right.contains(&name) && (name.starts_with(OPEN) || Meta::parse(&name).is_some()) {
            open::remove(&place, OsStr::from_bytes(&name))?;
        }
    }
    drop(held);
    done.push(format!(
        "meta: {} records of the sizes of hosts",
        right.len()
    ));
    Ok(done)
}
