//! What other processes have stored: those that were killed, and those that live.

use super::bytes::write_back;
use super::regions::{common, merged};
use super::{OpenFile, follow, records, reopen};
use culvert::{Caller, Errno, File};
use culvert_run::{self as run, ShadowName};

/// Writes back what the process that had the slot `slot`, and is gone, has stored. It may have
/// executed another program, which has the slot again, with records of its own.
pub fn recover(slot: u32) {
    let wanted = |said: &records::Said| {
        said.owner == records::NOBODY || said.owner == slot && records::has_ended(slot)
    };
    let _ = recover_those(wanted, false);
}

/// Whether the process that has the slot `slot` has records and a proof of life still.
pub fn is_alive_with_records(slot: u32) -> bool {
    let _ = run::get().node_locks.owner();
    let has_some = records::all(|said| said.owner == slot).is_ok_and(|all| !all.is_empty());
    has_some && !records::has_ended(slot)
}

/// As [`recover`], of all processes that are gone.
pub fn recover_dead() {
    let _ = recover_those(|said| records::is_gone(said.owner), false);
}

/// The same of the node of `name`, which is about to be used.
pub fn recover_node(name: ShadowName) {
    // What is not known now is asked again by who reads it.
    if records::any(name).unwrap_or(true) {
        let wanted = |said: &records::Said| said.name == name && records::is_gone(said.owner);
        let _ = recover_those(wanted, false);
    }
}

/// The same of all processes of a run that nobody is part of any more; an error of one of the
/// files. A file that was changed after that is left alone.
pub fn recover_all() -> culvert::Result<()> {
    recover_those(|_| true, true)
}

/// `later`: nobody has kept the shadows equal since those processes were killed.
fn recover_those(wanted: impl Fn(&records::Said) -> bool, later: bool) -> culvert::Result<()> {
    let mut result = Ok(());
    // A slot, so that others see who has taken a record over.
    let me = run::get().node_locks.owner();
    for (record, seen) in records::all(&wanted)? {
        let Some(said) = record.take_over(seen.owner, me, &wanted) else {
            continue;
        };
        let said = records::Said {
            identity: records::identity_of(record),
            ..said
        };
        match recover_range(&said, later) {
            Ok(()) => record.free(),
            Err(error) => {
                record.give_back();
                culvert_sys::log!(
                    "what a process that is gone has stored in {} cannot be written back: {error}",
                    said.name
                );
                result = Err(error);
            }
        }
    }
    result
}

fn recover_range(said: &records::Said, later: bool) -> culvert::Result<()> {
    let (name, range) = (said.name, said.range);
    let Some(shadow) = follow::followed(name)? else {
        return Ok(());
    };
    let file = match reopen::for_writing(name) {
        // It has no name any more: nobody can read it again.
        Err(error) if matches!(error.errno(), Errno::ESTALE | Errno::ENOENT) => {
            culvert_sys::log!(
                "what a process that is gone has stored in {name} is gone with it: {error}"
            );
            return Ok(());
        }
        opened => opened?,
    };
    // Its number is another file's by now.
    let identity = records::identity(&file.attributes(&Caller::SYSTEM)?);
    if said.identity != 0 && identity != 0 && said.identity != identity {
        culvert_sys::log!(
            "what a process that is gone has stored in {name} is gone with that file: another one \
            has its number"
        );
        return Ok(());
    }
    let _lock = run::get().node_locks.lock(name);
    if later && was_changed_since(&*file, shadow.number())? {
        return Err(culvert::Error::because(
            Errno::EBUSY,
            "the file was changed after that, and would lose it",
        ));
    }
    write_back(&*file, shadow.number(), &[range], false).map(|_| ())
}

/// Whether `file` was written more than a second after its shadow was: what the run's processes do
/// to the file they do to the shadow next.
fn was_changed_since(file: &dyn File, shadow: i32) -> culvert::Result<bool> {
    let followed = culvert_run::stat_descriptor(shadow)?.st_ctime as i64;
    Ok(file.attributes(&Caller::SYSTEM)?.mtime.seconds > followed + 1)
}

/// Writes back what other processes, living or not, have stored in the file that is `open`.
pub(super) fn write_back_others(open: &dyn OpenFile) -> culvert::Result<()> {
    write_back_others_in(open.name(), Some(open), &[(0, u64::MAX)])
}

/// The same of the bytes `within` of the file of `name`, which may be `open` here.
pub(super) fn write_back_others_in(
    name: ShadowName,
    open: Option<&dyn OpenFile>,
    within: &[(u64, u64)],
) -> culvert::Result<()> {
    let me = run::get().node_locks.owner();
    let mut ranges = alloc::vec::Vec::new();
    for (_, said) in records::of(name)? {
        if said.owner != me {
            ranges.extend(within.iter().filter_map(|&part| common(part, said.range)));
        }
    }
    if ranges.is_empty() {
        return Ok(());
    }
    let Some(shadow) = follow::followed(name)? else {
        return Ok(());
    };
    let anew;
    // To be compared it is read, too.
    let open = open.and_then(|it| it.readable().and(it.writable()).ok());
    let file = match open {
        Some(file) => file,
        // Who may not write the file cannot do it for the others: they do it themselves.
        None => match reopen::for_writing(name) {
            Err(error) if reopen::is_out_of_reach(&error) => return Ok(()),
            file => {
                anew = file?;
                &*anew
            }
        },
    };
    let _lock = run::get().node_locks.lock(name);
    write_back(file, shadow.number(), &merged(ranges), false).map(|_| ())
}
