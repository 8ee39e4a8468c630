//! Which module of the library may name which: those of lower floors only, so that there is no
//! import cycle, and what is low can be read, and tested, without what is high.

use std::{collections::BTreeSet, fs, path::Path};

/// The floors, lowest first, of crates that are linked into the library.
const FLOORS: [(&str, &[&str]); 4] = [
    ("culvert-mounts", &["table", "references", "resolver"]),
    (
        "culvert-run",
        &[
            "files library_copy node_shares",
            "task",
            "memory filters",
            "adopted mappings node_paths",
            "lock_files",
            "posix_locks",
            "internal",
            "holders node_locks",
            "records",
            "state",
            "joining",
            "restarts",
        ],
    ),
    (
        "culvert-cache",
        &[
            "shadow state",
            "fill orphan_file pinned pager regions reopen",
            "bytes open_file",
            "nodes",
            "baseline dirty evict",
            "room",
            "filling",
            "follow mappable pager_forked",
            "change holes recovery stores",
            "synced",
            "strangers",
            "orphans",
        ],
    ),
    (
        "culvert-preload",
        &[
            "answer",
            "backing",
            "watch",
            "description",
            "descriptors",
            "process",
            "notice orphan_handover strangers",
            "fuse_server",
            "vfs",
            "lifecycle",
            "exec",
            "syscalls",
            "rings",
            "table",
            "dispatch",
            "start",
        ],
    ),
];

/// The first parts of all paths in `text` that begin with `start` (`crate::`): of `start{a::b, c}`
/// a and c.
fn named(text: &str, start: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(start) {
        let rest = &text[at + start.len()..];
        match rest.strip_prefix('{') {
            None => {
                names.insert(word(rest));
            }
            Some(group) => {
                let (mut depth, mut begins) = (0, true);
                for (at, c) in group.char_indices() {
                    match c {
                        '}' if depth == 0 => break,
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        c if begins && c.is_alphanumeric() => {
                            names.insert(word(&group[at..]));
                            begins = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// Calls `visit` with each source file below `folder`.
fn each_source(folder: &Path, visit: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            each_source(&path, visit);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            visit(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn modules_name_only_what_is_on_lower_floors() {
    let mut wrong = Vec::new();
    for (name, floors) in FLOORS {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let place = crates.join(name).join("src");
        let floor_of = |name: &str| {
            let there = |floor: &&str| floor.split(' ').any(|module| module == name);
            floors.iter().position(there)
        };
        for entry in fs::read_dir(&place).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if ["lib", "mod"].contains(&&*module) {
                continue;
            }
            let Some(own) = floor_of(&module) else {
                wrong.push(format!("{} has no floor", path.display()));
                continue;
            };
            let mut check = |text: &str, start: &str| {
                for name in named(text, start) {
                    if name != module && floor_of(&name).is_some_and(|floor| floor >= own) {
                        wrong.push(format!("{place:?}: {module} names {name}"));
                    }
                }
            };
            if path.is_dir() {
                each_source(&path, &mut |text| check(text, "crate::"));
            } else {
                let text = fs::read_to_string(&path).unwrap();
                check(&text, "crate::");
                check(&text, "super::");
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_found_in_lists_too() {
    let text = "use crate::{memory::{self, Span}, log};\ncrate::run::get();";
    let found: Vec<_> = named(text, "crate::").into_iter().collect();
    assert_eq!(found, ["log", "memory", "run"]);
}
