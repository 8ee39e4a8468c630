//! All calls may come from several threads at once.

use super::{Kit, caller};
use crate::{FileKind, OpenFlags, Opened, testing::Report, testing::sinks};
use std::{format, string::String, sync::Mutex, thread, vec::Vec};

const THREADS: usize = 4;
/// Files that are read by all threads; the largest ones, since they have the most state.
const FILES: usize = 8;

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    let mut files: Vec<_> = kit.of_kind(FileKind::Regular).collect();
    files.sort_by_key(|found| std::cmp::Reverse(found.entry.attributes.size));
    files.truncate(FILES);
    let wrong = Mutex::new(Vec::<String>::new());
    let say = |what| wrong.lock().expect("nobody panics here").push(what);
    for found in &files {
        let Ok(Opened::Driven(file)) = kit.driver.open(&caller(), found.node, OpenFlags::READ)
        else {
            continue;
        };
        let want = found.expected.content.bytes();
        let (file, want, driver) = (&*file, &want[..], kit.driver);
        let holder = kit.holder(found.path);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let place = &found.place;
                scope.spawn(move || {
                    // Each thread begins elsewhere and strides through the file in pieces of its
                    // own size.
                    let piece = 1 + (want.len() / (3 + number)).min(50_000);
                    for round in 0..12 {
                        let offset = want.len() * ((number + round * 5) % 13) / 13;
                        let end = (offset + piece).min(want.len());
                        match sinks::read(file, offset as u64, piece) {
                            Ok(got) if got == want[offset..end] => {}
                            Ok(_) => say(format!("{place}: other bytes from {offset}")),
                            Err(error) => say(format!("{place}: {error:?} from {offset}")),
                        }
                        let Some((dir, name)) = holder else { continue };
                        match driver.lookup(&caller(), dir, name) {
                            Ok(entry) if entry.attributes.node == found.node => {
                                driver.forget(found.node, 1);
                            }
                            _ => say(format!("{place}: another node")),
                        }
                        let mut count = 0;
                        let listed = driver.read_directory(&caller(), dir, 0, &mut |_| {
                            count += 1;
                            true
                        });
                        if listed.is_err() || count == 0 {
                            say(format!("{place}: its directory cannot be listed meanwhile"));
                        }
                    }
                });
            }
        });
        report.checks += THREADS;
    }
    for what in wrong.into_inner().unwrap_or_default() {
        report.fail("threads", what);
    }
}
