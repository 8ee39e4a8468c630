//! A new driver is its own files and few others (docs/writing-a-driver.md): what it is, it declares
//! (`Declared`), and nobody asks for one by its name.

use std::{fs, path::Path};

/// Where a driver's name stands all the same, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "culvert/src/mount/parse.rs",
        "the word memory stands for a source",
    ),
    (
        "culvert-drivers/src/union/unfinished.rs",
        "the roots of these are several directories",
    ),
    (
        "culvert/src/mount/list.rs",
        "the source memory: has a colon of its own",
    ),
    (
        "culvert-cli/src/mounts.rs",
        "an empty directory is one of memory's",
    ),
    (
        "culvert-cli/src/kernel_mount/registry.rs",
        "memory in bytes",
    ),
    (
        "culvert-server/src/capabilities.rs",
        "a capability of FUSE's",
    ),
    (
        "culvert-drivers/src/union/options.rs",
        "a way of mergerfs's to number inodes",
    ),
    (
        "culvert-drivers/src/bind/mod.rs",
        "what the type bind is a layer over",
    ),
    ("culvert-drivers/src/fuse.rs", "its own name"),
    ("culvert-cli/src/arguments/mod.rs", "the command plfs"),
    ("culvert-cli/src/words.rs", "the command plfs"),
    (
        "culvert-cli/src/sync.rs",
        "the synchronisation service is that of plfs",
    ),
    (
        "culvert-cli/src/cruise.rs",
        "CRUISE's variables are those of memory",
    ),
    (
        "culvert-cli/src/memory.rs",
        "the command memory, and the directory of named ones",
    ),
    (
        "culvert-drivers/src/memory/numa.rs",
        "a policy of mbind(2), not the driver",
    ),
    ("culvert-cli/src/config.rs", "the name of libfuse's package"),
    (
        "culvert-cli/src/arguments/extend.rs",
        "the name of an option",
    ),
    (
        "culvert-cli/src/extfs.rs",
        "only the command runs what the driver has the option for",
    ),
    (
        "culvert-cli/src/fuse/adapter/calls.rs",
        "the kernel's types of FUSE mounts",
    ),
    (
        "culvert-fuse/src/mounting.rs",
        "the kernel's types of FUSE mounts",
    ),
    ("culvert-fuse/src/threads.rs", "the name of threads"),
    (
        "culvert-preload/src/fuse_server/mounting.rs",
        "the kernel's types of FUSE mounts",
    ),
    (
        "culvert-server/src/mounting/table.rs",
        "the kernel's types of FUSE mounts",
    ),
    (
        "culvert-server/src/mounting/system.rs",
        "the kernel's type of FUSE mounts",
    ),
];

/// What is not a test of the source `text`.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn look(directory: &Path, root: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below it");
        let name = name.to_str().expect("a name of ours");
        if path.is_dir() {
            let is_test = name.ends_with("/tests") || name.ends_with("/testing");
            if !is_test && name != "target" {
                look(&path, root, found);
            }
            continue;
        }
        let is_source = name.ends_with(".rs") && name.contains("/src/");
        if !is_source || name.ends_with("tests.rs") || name == "culvert-drivers/src/registry.rs" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let lines = shipped(&text).lines().map(str::trim);
        let code = lines.filter(|line| !line.starts_with("//"));
        for line in code {
            for driver in culvert_drivers::list() {
                let own = format!("culvert-drivers/src/{}/", driver.name);
                let names = line.contains(&format!("\"{}\"", driver.name));
                if names && !name.starts_with(&own) {
                    found.push(format!("{name}: {line}"));
                }
            }
        }
    }
}

#[test]
fn nobody_asks_for_a_driver_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    look(&root, &root, &mut found);
    let is_allowed = |line: &String| {
        ALLOWED
            .iter()
            .any(|(file, _)| line.starts_with(&format!("{file}:")))
    };
    let more: Vec<_> = found.iter().filter(|line| !is_allowed(line)).collect();
    assert!(
        more.is_empty(),
        "let the driver declare it instead: {more:#?}"
    );
    for (file, why) in ALLOWED {
        let stands = |line: &String| line.starts_with(&format!("{file}:"));
        assert!(found.iter().any(stands), "{file} names none: {why}");
    }
}
