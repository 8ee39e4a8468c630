//! What a file system shows, as a value that can be compared.

use culvert::testing::caller;
use culvert::{Caller, File, FileKind, FileSystem, Node, OpenFlags, Opened, Result};
use std::collections::BTreeMap;

/// Everything about one name but times and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub kind: FileKind,
    pub permissions: u32,
    pub owner: (u32, u32),
    pub links: u64,
    pub size: u64,
    pub rdev: u64,
    /// Names of the same file: the first of them.
    pub same_as: String,
    pub content: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All names below the root, with its own attributes under the empty name.
pub type Tree = BTreeMap<String, Shown>;

/// Reads all of it.
pub fn read(fs: &dyn FileSystem) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut seen = BTreeMap::new();
    show(fs, fs.root(), String::new(), &mut tree, &mut seen)?;
    Ok(tree)
}

fn show(
    fs: &dyn FileSystem,
    node: Node,
    path: String,
    tree: &mut Tree,
    seen: &mut BTreeMap<u64, String>,
) -> Result<()> {
    let who = &caller();
    let attributes = fs.attributes(&Caller::SYSTEM, node)?;
    let content = match attributes.kind {
        FileKind::Regular => match fs.open(who, node, OpenFlags::READ)? {
            Opened::Driven(file) => bytes(&*file, attributes.size)?,
            Opened::Backed(_) => unreachable!("memory is driven"),
        },
        FileKind::Symlink => fs.readlink(&Caller::SYSTEM, node)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in fs
        .list_xattr(&Caller::SYSTEM, node)?
        .split(|&byte| byte == 0)
    {
        if !name.is_empty() {
            xattrs.insert(name.to_vec(), fs.get_xattr(&Caller::SYSTEM, node, name)?);
        }
    }
    let same_as = seen.entry(attributes.inode).or_insert(path.clone()).clone();
    let shown = Shown {
        kind: attributes.kind,
        permissions: attributes.permissions,
        owner: (attributes.uid, attributes.gid),
        links: u64::from(attributes.links),
        size: match attributes.kind {
            FileKind::Directory => 0,
            _ => attributes.size,
        },
        rdev: attributes.rdev,
        same_as,
        content,
        xattrs,
    };
    tree.insert(path.clone(), shown);
    if attributes.kind == FileKind::Directory {
        let mut names = Vec::new();
        fs.read_directory(&Caller::SYSTEM, node, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })?;
        names.sort();
        for name in names {
            let child = fs.lookup(who, node, &name)?.attributes.node;
            let below = format!("{path}/{}", name.escape_ascii());
            show(fs, child, below, tree, seen)?;
            fs.forget(child, 1);
        }
    }
    Ok(())
}

fn bytes(file: &dyn File, size: u64) -> Result<Vec<u8>> {
    let mut content = vec![0; size as usize];
    let mut done = 0;
    while done < content.len() {
        match file.read_at(done as u64, &mut &mut content[done..])? {
            0 => break,
            count => done += count,
        }
    }
    content.truncate(done);
    Ok(content)
}

/// Whether `now` is `before` or `after` an operation; with `partial`, also what lies between them
/// in the content of files: for each byte, and for the size, the one or the other. Else what is
/// wrong.
pub fn is_between(
    before: &Tree,
    now: &Tree,
    after: &Tree,
    partial: bool,
) -> std::result::Result<(), String> {
    if now == before || now == after {
        return Ok(());
    }
    let mut wrong = Vec::new();
    let names = before.keys().chain(after.keys()).chain(now.keys());
    let names: std::collections::BTreeSet<_> = names.collect();
    for name in names {
        let (old, is, new) = (before.get(name), now.get(name), after.get(name));
        if is == old && old == new {
            continue;
        }
        if let (true, Some(old), Some(is), Some(new)) = (partial, old, is, new)
            && is_partly(old, is, new)
        {
            continue;
        }
        if old != new || is != old {
            let short =
                |shown: Option<&Shown>| format!("{shown:?}").chars().take(300).collect::<String>();
            wrong.push(format!(
                "{name}:\n    before {}\n    now    {}\n    after  {}",
                short(old),
                short(is),
                short(new)
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

fn is_partly(old: &Shown, is: &Shown, new: &Shown) -> bool {
    let byte = |content: &[u8], at: usize| content.get(at).copied().unwrap_or(0);
    let sizes = is.size == old.size || is.size == new.size;
    let content = (0..is.content.len()).all(|at| {
        let now = is.content[at];
        now == byte(&old.content, at) || now == byte(&new.content, at)
    });
    let mut plain = is.clone();
    plain.content.clone_from(&new.content);
    plain.size = new.size;
    sizes && content && (plain == *new)
}
