//! What is where: `map`, `query`, `flatten`, `ls`, `version`.

use crate::scan::{Progress, Scan, is_container};
use crate::{open, wrong};
use culvert_drivers::plfs::SMALL_FILES;
use culvert_drivers::plfs::index::Found;
use culvert_drivers::plfs::layout::{GLOBAL, META, Meta, OPEN, Record, VERSION};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A line for each range of the file: offset, length, data dropping and the offset there, or
/// `hole`.
pub fn map(container: &Path, out: &mut dyn Write, progress: Progress<'_>) -> io::Result<()> {
    let scan = Scan::new(container)?;
    let mut merged = scan.index(progress)?;
    let mut at = 0;
    loop {
        at += match merged.find(at)? {
            Found::End => return Ok(()),
            Found::Hole(length) => {
                writeln!(out, "{at} {length} hole")?;
                length
            }
            Found::Data(chunk, physical, length) => {
                let name = scan.short(&merged.chunks[chunk as usize]);
                writeln!(out, "{at} {length} {name} {physical}")?;
                length
            }
        };
    }
}

/// Where the file's bytes lie: all droppings, or the place of the byte at `offset`.
pub fn query(
    container: &Path,
    offset: Option<u64>,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> io::Result<()> {
    let scan = Scan::new(container)?;
    let mut merged = scan.index(progress)?;
    let Some(offset) = offset else {
        for dropping in &scan.droppings {
            writeln!(out, "{}", dropping.path.display())?;
        }
        let mut data = merged.chunks;
        data.sort();
        for path in data {
            writeln!(out, "{}", path.display())?;
        }
        return Ok(());
    };
    match merged.find(offset)? {
        Found::End => writeln!(out, "behind the end, which is {}", merged.index.size()),
        Found::Hole(_) => writeln!(out, "hole"),
        Found::Data(chunk, physical, _) => {
            writeln!(
                out,
                "{} {physical}",
                merged.chunks[chunk as usize].display()
            )
        }
    }
}

/// Writes `global.index`, which PLFS reads instead of all indexes: how many ranges it has. It is
/// whole or not there.
pub fn flatten(container: &Path, progress: Progress<'_>) -> io::Result<u64> {
    let scan = Scan::new(container)?;
    if is_written(&scan.path)? {
        return Err(wrong(
            "somebody writes it, or was killed when it did: see culvert plfs recover",
        ));
    }
    let mut merged = scan.index(progress)?;
    let place = open::directory(&scan.path)?;
    let since = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    let temporary = format!(".culvert-new.{}.{since:x}", std::process::id());
    let temporary = OsStr::new(&temporary);
    let out = open::new_file(&place, temporary)?;
    let written = (|| {
        let mut out = BufWriter::new(out);
        out.write_all(&[0; 8])?;
        let (mut at, mut count) = (0, 0u64);
        loop {
            at += match merged.find(at)? {
                Found::End => break,
                Found::Hole(length) => length,
                Found::Data(chunk, physical, length) => {
                    let id = merged.owners[chunk as usize];
                    let (logical, begin, end) = (at, 0.0, 0.0);
                    let record = Record {
                        logical,
                        physical,
                        length,
                        begin,
                        end,
                        id,
                    };
                    out.write_all(&record.encode_global(chunk))?;
                    count += 1;
                    length
                }
            };
        }
        for chunk in &merged.chunks {
            out.write_all(chunk.as_os_str().as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.write_all(b"\0")?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &count.to_le_bytes(), 0)?;
        file.sync_all()?;
        rustix::fs::renameat(&place, temporary, &place, OsStr::from_bytes(GLOBAL))?;
        Ok(count)
    })();
    if written.is_err() {
        // The first error is the one that counts.
        let _ = open::remove(&place, temporary);
    }
    written
}

/// Whether a record of being open is there.
fn is_written(container: &Path) -> io::Result<bool> {
    let meta = container.join(OsStr::from_bytes(META));
    match fs::read_dir(meta) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        entries => Ok(entries?
            .flatten()
            .any(|entry| entry.file_name().as_bytes().starts_with(OPEN))),
    }
}

/// A line for each name in directory `dir` of a back end: kind, size, name. A container that is
/// being written shows the size that its indexes say.
pub fn list(dir: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_bytes().starts_with(b".culvert-") {
            continue;
        }
        let kind = entry.file_type()?;
        let (kind, size) = if kind.is_symlink() {
            ("link", 0)
        } else if kind.is_file() {
            ("plain", entry.metadata()?.len())
        } else if is_container(&path) {
            ("file", size(&path)?)
        } else if name.as_bytes() == SMALL_FILES {
            // Which ones is said by all back ends together.
            ("small", 0)
        } else {
            ("directory", 0)
        };
        writeln!(out, "{kind:9} {size:>14} {}", name.display())?;
    }
    Ok(())
}

fn size(container: &Path) -> io::Result<u64> {
    let (mut end, mut known) = (0, false);
    if !is_written(container)? {
        for entry in fs::read_dir(container.join(OsStr::from_bytes(META)))
            .into_iter()
            .flatten()
        {
            if let Some(meta) = Meta::parse(entry?.file_name().as_bytes()) {
                (end, known) = (end.max(meta.end), true);
            }
        }
    }
    match known {
        true => Ok(end),
        false => Ok(Scan::new(container)?.index(&mut |_, _| ())?.index.size()),
    }
}

/// The version of PLFS that made the container, of its format, and the check sum of back ends.
pub fn version(container: &Path) -> io::Result<String> {
    Scan::new(container)?;
    let names = fs::read_dir(container)?.collect::<io::Result<Vec<_>>>()?;
    let name = |entry: &fs::DirEntry| {
        let name = PathBuf::from(entry.file_name()).display().to_string();
        name.strip_prefix(std::str::from_utf8(VERSION).unwrap_or_default())
            .map(str::to_owned)
    };
    let found = names.iter().find_map(name);
    let found = found.ok_or_else(|| wrong("it says no version: PLFS before 0.1.7 made it"))?;
    let mut parts = [("tag", ""), ("dat", ""), ("chk", "")];
    for part in found.split('-') {
        for known in &mut parts {
            if let Some(value) = part
                .strip_prefix(known.0)
                .and_then(|rest| rest.strip_prefix('.'))
            {
                known.1 = value;
            }
        }
    }
    let [(_, tag), (_, format), (_, sum)] = parts;
    Ok(format!(
        "PLFS {tag}, format {format}, check sum of back ends {sum}\n"
    ))
}
