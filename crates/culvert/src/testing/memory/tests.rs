use super::*;
use crate::testing::caller;

#[test]
fn nodes_live_while_named_referenced_or_open() {
    let memory = Memory::new();
    let (entry, opened) = memory
        .create(&caller(), ROOT, b"a", OpenFlags::READ_WRITE, 0o600)
        .unwrap();
    let node = entry.attributes.node;
    memory.unlink(&caller(), ROOT, b"a").unwrap();
    memory.forget(node, 1);
    assert_eq!(memory.nodes(), 2);
    drop(opened);
    assert_eq!(memory.nodes(), 1);
    assert_eq!(
        memory
            .attributes(&Caller::SYSTEM, node)
            .unwrap_err()
            .errno(),
        Errno::ESTALE
    );
}

#[test]
fn walking_gives_back_the_directories_it_passed() {
    let memory = Memory::new();
    let mut dir = ROOT;
    for name in [b"a", b"b", b"c"] {
        let made = memory.mkdir(&caller(), dir, name, 0o755).unwrap();
        dir = made.attributes.node;
        memory.forget(dir, 1);
    }
    let walked = memory.walk(&caller(), ROOT, b"a/b/c").unwrap();
    let references = |node: Node| memory.reading().inode(node).unwrap().references;
    assert_eq!(references(walked.parent), 1);
    assert_eq!(references(walked.entry.unwrap().attributes.node), 1);
    assert!(memory.walk(&caller(), ROOT, b"a/b/x").is_err());
    assert_eq!(references(walked.parent), 1);
    assert_eq!(references(memory.parent(walked.parent).unwrap()), 0);
}
