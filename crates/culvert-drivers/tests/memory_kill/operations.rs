//! Every kind of operation, small.

use culvert::testing::caller;
use culvert::{
    Caller, File, FileKind, FileSystem, Node, OpenFlags, Opened, RenameFlags, SetAttributes,
    Timespec,
};
use culvert_sys::{Errno, nr, syscall};

const WHO: &Caller<'static> = &caller();

type Fs<'a> = &'a dyn FileSystem;

/// What is done to a file system, and how exactly it must be all or nothing.
pub struct Operation {
    pub name: &'static str,
    /// The content of files may be half done.
    pub partial: bool,
    /// Makes what it needs, in another process before.
    pub setup: fn(Fs<'_>),
    /// In the stepped process, before stepping: opens files and looks names up.
    pub begin: fn(Fs<'_>) -> Begun,
    /// What is stepped through: each of these is all or nothing.
    pub run: &'static [fn(Fs<'_>, &mut Begun)],
}

/// What an operation works on.
#[derive(Default)]
pub struct Begun {
    nodes: Vec<Node>,
    files: Vec<Box<dyn File>>,
}

pub fn node(fs: Fs<'_>, path: &str) -> Node {
    path.split('/').fold(fs.root(), |dir, name| {
        fs.lookup(WHO, dir, name.as_bytes())
            .unwrap()
            .attributes
            .node
    })
}

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => unreachable!("memory is driven"),
    }
}

pub fn file(fs: Fs<'_>, path: &str) -> Box<dyn File> {
    driven(fs.open(WHO, node(fs, path), OpenFlags::READ_WRITE).unwrap())
}

pub fn make(fs: Fs<'_>, dir: Node, name: &str, content: &[u8]) -> Box<dyn File> {
    let (_, opened) = fs
        .create(WHO, dir, name.as_bytes(), OpenFlags::READ_WRITE, 0o644)
        .unwrap();
    let file = driven(opened);
    file.write_at(0, &mut &content[..]).unwrap();
    file
}

/// The same start for all: two directories, files with and without holes, links, attributes.
fn usual(fs: Fs<'_>) {
    let root = fs.root();
    let d = fs.mkdir(WHO, root, b"d", 0o755).unwrap().attributes.node;
    let e = fs.mkdir(WHO, root, b"e", 0o755).unwrap().attributes.node;
    fs.mkdir(WHO, e, b"empty", 0o755).unwrap();
    let big: Vec<u8> = (0..20_000u32).map(|n| (n / 7) as u8 | 1).collect();
    make(fs, d, "big", &big);
    make(fs, d, "small", b"small content");
    make(fs, e, "other", b"another file");
    let holes = make(fs, root, "holes", b"front");
    holes.write_at(30_000, &mut &b"back"[..]).unwrap();
    let small = node(fs, "d/small");
    fs.link(WHO, small, e, b"second").unwrap();
    fs.symlink(WHO, root, b"link", b"d/small").unwrap();
    fs.set_xattr(WHO, small, b"user.one", b"1", 0).unwrap();
    fs.set_xattr(WHO, small, b"user.two", &[7; 300], 0).unwrap();
}

/// Blocks set aside within a small file and behind its end.
fn set_aside(fs: Fs<'_>) {
    usual(fs);
    let small = file(fs, "d/small");
    small.write_at(8192, &mut &b"second block"[..]).unwrap();
    small.allocate(1, 4096, 4096).unwrap();
    small.allocate(1, 12_288, 20_000).unwrap();
}

/// A file whose blocks are given back to the kernel when it is mapped.
fn large(fs: Fs<'_>) {
    usual(fs);
    let big: Vec<u8> = (0..400_000u32).map(|n| (n / 7) as u8 | 1).collect();
    file(fs, "d/big").write_at(0, &mut &big[..]).unwrap();
}

/// All that is free was given back.
fn given_back(fs: Fs<'_>) {
    large(fs);
    map(&*file(fs, "d/big"), false);
}

fn many(fs: Fs<'_>) {
    usual(fs);
    let d = node(fs, "d");
    for number in 0..400 {
        fs.mknod(
            WHO,
            d,
            format!("number-{number}").as_bytes(),
            FileKind::Fifo as u32 | 0o600,
            0,
        )
        .unwrap();
    }
}

fn nothing(_: Fs<'_>) -> Begun {
    Begun::default()
}

fn directories(fs: Fs<'_>) -> Begun {
    Begun {
        nodes: vec![node(fs, "d"), node(fs, "e"), node(fs, "d/small")],
        files: vec![],
    }
}

fn opened(fs: Fs<'_>) -> Begun {
    let files = ["d/big", "d/small", "holes", "e/other"];
    Begun {
        nodes: vec![node(fs, "d"), node(fs, "e")],
        files: files.iter().map(|path| file(fs, path)).collect(),
    }
}

/// What is mapped in memory of its own, and what is not yet.
fn moved(fs: Fs<'_>) {
    usual(fs);
    for path in ["d/big", "d/small", "holes"] {
        map(&*file(fs, path), false);
    }
}

/// Maps a file, and with `stores` changes some bytes of it.
fn map(file: &dyn File, stores: bool) {
    let length = file.attributes(&Caller::SYSTEM).unwrap().size as usize;
    let mut mapped = Err(Errno::EIO);
    let has_one = file.with_kernel_file((0, length as u64), stores, &mut |fd| {
        let protection = if stores { 3 } else { 1 };
        let arguments = [0, length, protection, 1, fd as usize, 0];
        // SAFETY: a new mapping.
        mapped = unsafe { syscall::call(nr::MMAP, arguments) };
    });
    assert!(has_one.unwrap());
    let start = mapped.unwrap();
    if stores {
        for at in (0..length).step_by(1500) {
            // SAFETY: within the mapping made above.
            unsafe { (start as *mut u8).add(at).write_volatile(0) };
        }
    }
    // SAFETY: the mapping made above.
    unsafe { syscall::call(nr::MUNMAP, [start, length]) }.unwrap();
}

fn size(to: u64) -> SetAttributes {
    SetAttributes {
        size: Some(to),
        ..SetAttributes::default()
    }
}

fn one_more(fs: Fs<'_>, begun: &Begun, number: u32) {
    let name = format!("one-more-{number}-{}", "x".repeat(200));
    fs.symlink(WHO, begun.nodes[0], name.as_bytes(), b"t")
        .unwrap();
}

macro_rules! operations {
    ($($name:literal $partial:ident $setup:ident $begin:ident |$fs:ident, $begun:ident| $($run:block)+)*) => {
        pub const ALL: &[Operation] = &[$(Operation {
            name: $name,
            partial: $partial,
            setup: $setup,
            begin: $begin,
            run: &[$({
                fn run($fs: Fs<'_>, $begun: &mut Begun) { $run }
                run
            },)+],
        },)*];
    };
}

operations! {
    "create" false usual directories |fs, b| { drop(fs.create(WHO, b.nodes[0], b"new", OpenFlags::WRITE, 0o600).unwrap()) }
    "create-existing-truncating" true usual directories |fs, b| {
        let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
        drop(fs.create(WHO, b.nodes[0], b"big", flags, 0o600).unwrap())
    }
    "mkdir" false usual directories |fs, b| { let _ = fs.mkdir(WHO, b.nodes[0], b"new", 0o700).unwrap(); }
    "mknod" false usual directories |fs, b| { let _ = fs.mknod(WHO, b.nodes[0], b"new", FileKind::Socket as u32 | 0o600, 0).unwrap(); }
    "symlink" false usual directories |fs, b| { let _ = fs.symlink(WHO, b.nodes[0], b"new", b"target").unwrap(); }
    "symlink-long" false usual directories |fs, b| { let _ = fs.symlink(WHO, b.nodes[0], b"new", &[b'x'; 4000]).unwrap(); }
    "link" false usual directories |fs, b| { let _ = fs.link(WHO, b.nodes[2], b.nodes[1], b"third").unwrap(); }
    "unlink" false usual directories |fs, b| { fs.unlink(WHO, b.nodes[0], b"big").unwrap() }
    "unlink-one-of-two" false usual directories |fs, b| { fs.unlink(WHO, b.nodes[0], b"small").unwrap() }
    "unlink-open" false usual opened |fs, b| { fs.unlink(WHO, b.nodes[0], b"big").unwrap(); b.files.clear() }
    "rmdir" false usual directories |fs, b| { fs.rmdir(WHO, b.nodes[1], b"empty").unwrap() }
    "rename" false usual directories |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[1], b"moved"), RenameFlags::default()).unwrap() }
    "rename-same-directory" false usual directories |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[0], b"moved"), RenameFlags::default()).unwrap() }
    "rename-over" false usual directories |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[1], b"other"), RenameFlags::default()).unwrap() }
    "rename-over-open" false usual opened |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[1], b"other"), RenameFlags::default()).unwrap(); b.files.clear() }
    "rename-directory" false usual directories |fs, b| { fs.rename(WHO, (fs.root(), b"d"), (b.nodes[1], b"d"), RenameFlags::default()).unwrap() }
    "rename-directory-over" false usual directories |fs, b| { fs.rename(WHO, (fs.root(), b"d"), (b.nodes[1], b"empty"), RenameFlags::default()).unwrap() }
    "rename-exchange" false usual directories |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[1], b"empty"), RenameFlags(RenameFlags::EXCHANGE)).unwrap() }
    "rename-noreplace" false usual directories |fs, b| { fs.rename(WHO, (b.nodes[0], b"small"), (b.nodes[1], b"moved"), RenameFlags(RenameFlags::NO_REPLACE)).unwrap() }
    "tmpfile" false usual directories |fs, b| { drop(fs.tmpfile(WHO, b.nodes[0], OpenFlags::WRITE, 0o600).unwrap()) }
    "tmpfile-link" false usual directories |fs, b| {
        let (entry, opened) = fs.tmpfile(WHO, b.nodes[0], OpenFlags::WRITE, 0o600).unwrap();
        fs.link(WHO, entry.attributes.node, b.nodes[0], b"named").unwrap();
        drop(opened)
    }
    "chmod" false usual directories |fs, b| {
        let changes = SetAttributes { permissions: Some(0o4711), ..SetAttributes::default() };
        let _ = fs.set_attributes(WHO, b.nodes[2], &changes).unwrap();
    }
    "chown" false usual directories |fs, b| {
        let changes = SetAttributes { uid: Some(5), gid: Some(6), ..SetAttributes::default() };
        let _ = fs.set_attributes(WHO, b.nodes[2], &changes).unwrap();
    }
    "utimes" false usual directories |fs, b| {
        let when = Some(Timespec { seconds: 1, nanoseconds: 2 });
        let changes = SetAttributes { atime: when, mtime: when, ..SetAttributes::default() };
        let _ = fs.set_attributes(WHO, b.nodes[2], &changes).unwrap();
    }
    "set-xattr" false usual directories |fs, b| { fs.set_xattr(WHO, b.nodes[2], b"user.three", b"333", 0).unwrap() }
    "set-xattr-first" false usual directories |fs, b| { fs.set_xattr(WHO, b.nodes[0], b"user.first", b"1", 0).unwrap() }
    "replace-xattr" false usual directories |fs, b| { fs.set_xattr(WHO, b.nodes[2], b"user.two", &[8; 3000], 0).unwrap() }
    "remove-xattr" false usual directories |fs, b| { fs.remove_xattr(WHO, b.nodes[2], b"user.two").unwrap() }
    "directory-grows" false many directories |fs, b|
        { one_more(fs, b, 0) } { one_more(fs, b, 1) } { one_more(fs, b, 2) } { one_more(fs, b, 3) }
    "write-over" true usual opened |_fs, b| { b.files[0].write_at(4090, &mut &[0u8; 20][..]).unwrap(); }
    "write-behind-the-end" true usual opened |_fs, b| { b.files[1].write_at(13, &mut &b" and \
        more"[..]).unwrap(); }
    "write-new-block" true usual opened |_fs, b| { b.files[1].write_at(4096, &mut &b"next \
        block"[..]).unwrap(); }
    "write-into-hole" true usual opened |_fs, b| { b.files[2].write_at(12_000, &mut &b"middle"[..]).unwrap(); }
    "append" true usual opened |_fs, b| { b.files[1].append(&mut &b" appended"[..]).unwrap(); }
    "truncate-down" true usual opened |_fs, b| { b.files[0].set_attributes(&Caller::SYSTEM, &size(5000)).unwrap(); }
    "truncate-to-nothing" true usual opened |_fs, b| { b.files[0].set_attributes(&Caller::SYSTEM, &size(0)).unwrap(); }
    "truncate-up" true usual opened |_fs, b| { b.files[1].set_attributes(&Caller::SYSTEM, &size(50_000)).unwrap(); }
    "truncate-down-and-up" true usual opened |_fs, b|
        { b.files[1].set_attributes(&Caller::SYSTEM, &size(3)).unwrap(); }
        { b.files[1].set_attributes(&Caller::SYSTEM, &size(13)).unwrap(); }
    "allocate" true usual opened |_fs, b| { b.files[2].allocate(0, 8192, 40_000).unwrap() }
    "allocate-keep-size" false usual opened |_fs, b| { b.files[1].allocate(1, 0, 20_000).unwrap() }
    "punch-hole" true usual opened |_fs, b| { b.files[0].allocate(3, 4000, 9000).unwrap() }
    "zero-range" true usual opened |_fs, b| { b.files[0].allocate(16, 4000, 9000).unwrap() }
    "copy-range" true usual opened |_fs, b| { b.files[0].copy_range(100, &*b.files[3], 5, 50).unwrap(); }
    "map" false usual opened |_fs, b| { map(&*b.files[0], false) }
    "map-content-in-the-inode" false usual opened |_fs, b| { map(&*b.files[1], false) }
    "map-holes" false usual opened |_fs, b| { map(&*b.files[2], false) }
    "map-and-fill-holes" false usual opened |_fs, b| {
        assert!(b.files[2].with_kernel_file((0, 40_000), true, &mut |_| ()).unwrap());
    }
    "map-and-store" true usual opened |_fs, b| { map(&*b.files[0], true) }
    "map-what-was-set-aside" false set_aside opened |_fs, b| { map(&*b.files[1], false) }
    "map-large" false large opened |_fs, b| { map(&*b.files[0], false) }
    "allocate-what-was-given-back" true given_back opened |_fs, b| { b.files[3].write_at(0, &mut &[7u8; 9000][..]).unwrap(); }
    "mapped-write-over" true moved opened |_fs, b| { b.files[0].write_at(4090, &mut &[0u8; 20][..]).unwrap(); }
    "mapped-write-behind-the-end" true moved opened |_fs, b| { b.files[1].write_at(5000, &mut &b" \
        and more"[..]).unwrap(); }
    "mapped-write-into-hole" true moved opened |_fs, b| { b.files[2].write_at(12_000, &mut &b"middle"[..]).unwrap(); }
    "mapped-append" true moved opened |_fs, b| { b.files[1].append(&mut &b" \
        appended"[..]).unwrap(); }
    "mapped-truncate-down" true moved opened |_fs, b| { b.files[0].set_attributes(&Caller::SYSTEM, &size(5000)).unwrap(); }
    "mapped-truncate-up" true moved opened |_fs, b| { b.files[1].set_attributes(&Caller::SYSTEM, &size(50_000)).unwrap(); }
    "mapped-allocate" true moved opened |_fs, b| { b.files[2].allocate(0, 8192, 40_000).unwrap() }
    "mapped-punch-hole" true moved opened |_fs, b| { b.files[0].allocate(3, 4000, 9000).unwrap() }
    "mapped-zero-range" true moved opened |_fs, b| { b.files[0].allocate(16, 4000, 9000).unwrap() }
    "mapped-unlink" false moved directories |fs, b| { fs.unlink(WHO, b.nodes[0], b"big").unwrap() }
    "mapped-unlink-open" false moved opened |fs, b| { fs.unlink(WHO, b.nodes[0], b"big").unwrap(); b.files.clear() }
    "mapped-rename-over" false moved directories |fs, b| { fs.rename(WHO, (b.nodes[1], b"other"), (b.nodes[0], b"big"), RenameFlags::default()).unwrap() }
    "file-system-grows" true usual opened |_fs, b| { b.files[1].allocate(0, 0, 1 << 20).unwrap() }
    "close" false usual opened |_fs, b| { b.files.clear() }
    "nothing" false usual nothing |fs, _b| { fs.sync().unwrap() }
}
