use super::*;
use crate::{FileKind, Timespec};

/// A tree with one of everything.
pub(super) fn everything() -> Tree {
    let noise = |length: usize| {
        (0..length)
            .map(|i| (i * i / 7 % 251) as u8)
            .collect::<Vec<_>>()
    };
    let old = Timespec {
        seconds: -5,
        nanoseconds: 7,
    };
    let mut tree = Tree::new()
        .file("empty", "")
        .file("one", "x")
        .file("a page", noise(4096))
        .file("odd", noise(100_001))
        .permissions(0o640)
        .owner(7, 8)
        .modified(old)
        .file("zeroes", [0; 20_000])
        .directory("d")
        .permissions(0o2775)
        .directory("d/e")
        .file("d/e/f", "deep")
        .hard_link("d/g", "d/e/f")
        .hard_link("also odd", "odd")
        .directory("d/empty")
        .symlink("link", "d/e/f")
        .symlink("dangling", "../../nowhere")
        .symlink("d/up", "..")
        .special("fifo", FileKind::Fifo)
        .special("d/socket", FileKind::Socket)
        .file([b"\xff\xfe\n ", &[b'n'; 200][..]].concat(), "hostile name")
        .file("marked", "with attributes")
        .xattr("user.a", "1")
        .xattr("user.b", [0, 255])
        .directory("many");
    for i in 0..300 {
        tree = tree.file(format!("many/{i}"), format!("{i}"));
    }
    tree
}

#[test]
fn memory_passes_the_reading_half() {
    let memory = Memory::new();
    let tree = everything();
    fill(&memory, &tree).unwrap();
    let nodes = memory.nodes();
    let report = reading(&memory, &tree);
    report.assert_ok();
    assert!(report.checks > 10_000, "{} checks", report.checks);
    reading(&memory.read_only(), &tree).assert_ok();
    assert_eq!(memory.nodes(), nodes);
}

#[test]
fn a_missing_and_a_surplus_file_are_seen() {
    let memory = Memory::new();
    fill(&memory, &Tree::new().file("a", "1").file("b", "2")).unwrap();
    assert!(reading(&memory, &Tree::new().file("a", "1")).broke("listing"));
    let more = Tree::new().file("a", "1").file("b", "2").file("c", "");
    assert!(reading(&memory, &more).broke("lookup-finds"));
    let other = Tree::new().file("a", "1").file("b", "3");
    assert!(reading(&memory, &other).broke("content"));
}

#[test]
fn a_tree_on_disk_is_described_with_its_hard_links() {
    let dir = std::env::temp_dir().join(format!("culvert-tree-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("d")).unwrap();
    std::fs::write(dir.join("d/f"), "content").unwrap();
    std::fs::hard_link(dir.join("d/f"), dir.join("g")).unwrap();
    std::os::unix::fs::symlink("d", dir.join("l")).unwrap();
    let tree = Tree::of_directory(&dir).unwrap();
    let memory = Memory::new();
    fill(&memory, &tree).unwrap();
    reading(&memory, &tree).assert_ok();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(tree.len(), 4);
    assert_eq!(tree.paths[&b"g"[..]].file, tree.paths[&b"d/f"[..]].file);
}

#[test]
fn memory_passes_the_writing_half() {
    let report = writing(&|| std::boxed::Box::new(Memory::new()));
    report.assert_ok();
    assert!(report.checks > 300, "{} checks", report.checks);
}
