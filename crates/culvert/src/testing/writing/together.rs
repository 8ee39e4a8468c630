//! Several threads at once, and listings while names come and go.

use super::{Kit, caller};
use crate::{Errno, OpenFlags, Result, testing::Report};
use std::{
    collections::HashMap,
    format,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    vec::Vec,
};

const THREADS: usize = 4;

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    listing_meanwhile(kit, report);
    one_winner(kit, report);
    appends(kit, report);
}

/// Entries that stay are listed exactly once, whatever happens to the others in between.
fn listing_meanwhile(kit: &Kit<'_>, report: &mut Report) {
    let who = &caller();
    let made = kit.mkdir(kit.root, b"busy").and_then(|dir| {
        for i in 0..60 {
            kit.make(
                dir,
                format!("{}{i}", if i % 3 == 0 { "go" } else { "stay" }).as_bytes(),
                b"",
            )?;
        }
        Ok(dir)
    });
    let Some(dir) = report.works("listing-meanwhile", "a directory", made) else {
        return;
    };
    let (mut seen, mut from, mut round) = (HashMap::<Vec<u8>, usize>::new(), 0, 0);
    loop {
        let mut part = Vec::new();
        let listed = kit
            .driver
            .read_directory(&caller(), dir, from, &mut |entry| {
                let room = part.len() < 5;
                if room {
                    part.push((entry.next, entry.name.to_vec()));
                }
                room
            });
        report.works("listing-meanwhile", "listing", listed);
        let Some((next, _)) = part.last() else { break };
        from = *next;
        for (_, name) in part {
            *seen.entry(name).or_default() += 1;
        }
        // Goes on at a name that may be gone, while new ones arrive.
        let _ = kit
            .driver
            .unlink(who, dir, format!("go{}", round * 3).as_bytes());
        if round < 30 {
            let _ = kit.make(dir, format!("new{round}").as_bytes(), b"");
        }
        round += 1;
        if round > 200 {
            return report.fail("listing-meanwhile", "the listing does not end");
        }
    }
    let stay = |i: &usize| !i.is_multiple_of(3);
    for name in (0..60).filter(stay).map(|i| format!("stay{i}")) {
        let times = seen.get(name.as_bytes()).copied().unwrap_or(0);
        report.equal("listing-meanwhile", &name, times, 1);
    }
}

/// Of several that make the same name at once, one makes it.
fn one_winner(kit: &Kit<'_>, report: &mut Report) {
    let driver = kit.driver;
    for round in 0..40 {
        let (made, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let name = format!("same{round}");
        let count = |result: Result<()>| match result {
            Ok(()) => made.fetch_add(1, Relaxed),
            Err(error) if error.errno() == Errno::EEXIST => 0,
            Err(_) => others.fetch_add(1, Relaxed),
        };
        let (name, count) = (name.as_bytes(), &count);
        thread::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
                    match number % 2 {
                        0 => count(
                            driver
                                .create(&caller(), kit.root, name, flags, 0o644)
                                .map(drop),
                        ),
                        _ => count(driver.mkdir(&caller(), kit.root, name, 0o755).map(drop)),
                    };
                });
            }
        });
        let is = (made.into_inner(), others.into_inner());
        report.equal("one-winner", "made, and failed otherwise", is, (1, 0));
    }
}

/// Appends by several threads through several descriptions neither overlap nor leave gaps.
fn appends(kit: &Kit<'_>, report: &mut Report) {
    const EACH: usize = 200;
    let Some(node) = report.works(
        "appends-together",
        "a file",
        kit.make(kit.root, b"log", b""),
    ) else {
        return;
    };
    let flags = OpenFlags::WRITE.with(OpenFlags::APPEND);
    // All before the first append: a driver whose descriptions remember the end is found out even
    // where one thread is done before the next one starts.
    let opened: Result<Vec<_>> = (0..THREADS).map(|_| kit.open(node, flags)).collect();
    let Some(opened) = report.works("appends-together", "opening", opened) else {
        return;
    };
    let lost = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (number, handle) in opened.iter().enumerate() {
            let lost = &lost;
            scope.spawn(move || {
                for i in 0..EACH {
                    let record = [b'a' + number as u8; 16];
                    let appended = match handle.driven() {
                        Some(file) => file.append(&mut &record[..]).map(|(_, count)| count),
                        None => handle.write(0, &record),
                    };
                    if appended.ok() != Some(16) {
                        lost.fetch_add(1, Relaxed);
                    }
                    if i % 20 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let content = kit.content(node).unwrap_or_default();
    let whole = |record: &[u8]| record.iter().all(|&b| b == record[0]);
    let is = (
        content.len(),
        content.chunks(16).all(whole),
        lost.into_inner(),
    );
    report.equal(
        "appends-together",
        "bytes, whole records, lost",
        is,
        (THREADS * EACH * 16, true, 0),
    );
}
