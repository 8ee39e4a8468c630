//! Anything is asked of a client whose server answers anything; all of it is made of a row of
//! numbers, so that a failure comes again.

use super::server::{Replied, Server};
use culvert::{
    Access, Attributes, Caller, Directory, DirectoryEntry, Entry, File, FileSystem, Lock, LockKind,
    LockOwner, Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result, SetAttributes, Wait,
    Whence,
};
use culvert_wire::{
    DirectoryWriter, Expects, Operation, Plain, WireEntry,
    structures::{
        Attr, AttrOut, EntryOut, FileLock, IoctlOut, LkOut, LseekOut, OpenOut, PollOut, StatfsOut,
        StatxOut, WriteOut,
    },
};
use std::sync::{Arc, Mutex};

/// Numbers that come again (xorshift64*).
pub fn numbers(seed: u64, mut count: usize) -> impl FnMut() -> Option<u64> + Send {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        count = count.checked_sub(1)?;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        Some(state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16)
    }
}

/// The row.
struct Row(Box<dyn FnMut() -> Option<u64> + Send>);

impl Row {
    /// 0 when there are no more: the end comes from [`play`].
    fn next(&mut self) -> u64 {
        (self.0)().unwrap_or(0)
    }
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
    fn node(&mut self) -> u64 {
        [0, 1, 2, 3, 4, 5, 6, 7, u64::MAX][self.below(9)]
    }
    fn size(&mut self) -> u64 {
        [0, 1, 4096, 5, 1 << 40, i64::MAX as u64, 1 << 63, u64::MAX][self.below(8)]
    }
    fn attr(&mut self) -> Attr {
        let modes = [
            0o100644, 0o100755, 0o106755, 0o040755, 0o040755, 0o120777, 0o020600, 0, 0o777,
        ];
        Attr {
            ino: self.size(),
            mode: modes[self.below(modes.len())],
            size: self.size(),
            mtimensec: self.next() as u32,
            nlink: self.below(3) as u32,
            blksize: self.next() as u32,
            ..Attr::default()
        }
    }
    fn entry(&mut self) -> EntryOut {
        EntryOut {
            nodeid: self.node(),
            generation: self.below(2) as u64,
            entry_valid: self.size(),
            attr_valid: self.size(),
            entry_valid_nsec: self.next() as u32,
            attr: self.attr(),
            ..EntryOut::default()
        }
    }
    fn name(&mut self) -> &'static [u8] {
        [&b"a"[..], b"b", b"c", b".", b"..", b"x/y", b"z\0z", b""][self.below(8)]
    }
    fn listing(&mut self, plus: bool) -> Vec<u8> {
        let mut bytes = [0; 700];
        let mut writer = DirectoryWriter::new(&mut bytes);
        for _ in 0..self.below(6) {
            let entry = WireEntry {
                inode: self.next(),
                next: self.size(),
                kind: self.next() as u32,
                name: self.name(),
            };
            match plus {
                true => writer.add_plus(&self.entry(), &entry),
                false => writer.add(&entry),
            };
        }
        let length = writer.length();
        bytes[..length].to_vec()
    }

    fn good(&mut self, operation: &Operation<'_>) -> Vec<u8> {
        let open = OpenOut {
            fh: self.next(),
            open_flags: self.next() as u32,
            backing_id: self.next() as i32,
        };
        match operation.expects() {
            None | Some(Expects::Done) => Vec::new(),
            Some(Expects::Entry) => self.entry().bytes().to_vec(),
            Some(Expects::Attributes) => AttrOut {
                attr: self.attr(),
                attr_valid: self.size(),
                ..AttrOut::default()
            }
            .bytes()
            .to_vec(),
            Some(Expects::Statx) => {
                let mut statx = StatxOut::default();
                let attr = self.attr();
                statx.stat.mask = [0xfff, 0x7ff, 0][self.below(3)];
                statx.stat.mode = attr.mode as u16;
                statx.stat.size = attr.size;
                statx.stat.rdev_major = self.next() as u32;
                statx.bytes().to_vec()
            }
            Some(Expects::Opened) => open.bytes().to_vec(),
            Some(Expects::Created) => [self.entry().bytes(), open.bytes()].concat(),
            Some(Expects::Data) => match operation {
                Operation::Readdir { .. } => self.listing(false),
                Operation::Readdirplus { .. } => self.listing(true),
                _ => {
                    let length = [0, 1, 9, 100, 4096, 70000][self.below(6)];
                    let byte = [b'a', 0][self.below(2)];
                    vec![byte; length]
                }
            },
            Some(Expects::Written) => WriteOut {
                size: [0, 1, 9, u32::MAX][self.below(4)],
                padding: 0,
            }
            .bytes()
            .to_vec(),
            Some(Expects::Copied) => self.size().to_ne_bytes().to_vec(),
            Some(Expects::Statfs) => StatfsOut::default().bytes().to_vec(),
            Some(Expects::Lock) => LkOut {
                lk: FileLock {
                    start: self.size(),
                    end: self.size(),
                    r#type: self.below(4) as u32,
                    pid: 1,
                },
            }
            .bytes()
            .to_vec(),
            Some(Expects::Offset) => LseekOut {
                offset: self.size(),
            }
            .bytes()
            .to_vec(),
            Some(Expects::Ioctl) => {
                let ioctl = IoctlOut {
                    result: self.next() as i32,
                    flags: self.below(8) as u32,
                    ..IoctlOut::default()
                };
                let more = self.below(200);
                [ioctl.bytes(), &vec![1; more]].concat()
            }
            Some(Expects::Ready) => PollOut {
                revents: self.next() as u32,
                padding: 0,
            }
            .bytes()
            .to_vec(),
            Some(_) => vec![0; 16],
        }
    }

    fn reply(&mut self, operation: &Operation<'_>) -> Replied {
        let mut bytes = self.good(operation);
        match self.below(20) {
            0 => return Err([1, 2, 4, 5, 38, 95, 511, 512, 4000, -1][self.below(10)]),
            1 => return Err(38),
            2 => {
                let length = self.below(bytes.len() + 1);
                bytes.truncate(length);
            }
            3 => bytes.extend([1; 9]),
            4 => bytes = vec![0xff; 300],
            5 => {
                for _ in 0..4 {
                    let at = self.below(bytes.len());
                    let byte = self.next() as u8;
                    if let Some(place) = bytes.get_mut(at) {
                        *place = byte;
                    }
                }
            }
            _ => {}
        }
        Ok(bytes)
    }
}

/// What a client has, and what is asked of it.
struct Player {
    client: culvert_client::FuseFs,
    row: Arc<Mutex<Row>>,
    nodes: Vec<Node>,
    files: Vec<Box<dyn File>>,
    directories: Vec<Box<dyn Directory>>,
}

const WHO: Caller<'static> = Caller {
    uid: 1000,
    gid: 1000,
    groups: &[],
    pid: 1,
    umask: 0o22,
    rights: None,
};

fn checked(attributes: &Attributes) {
    assert!(attributes.node.0 > 0);
    assert!(attributes.size <= i64::MAX as u64);
    assert!(attributes.mtime.nanoseconds < 1_000_000_000);
}

impl Player {
    fn below(&self, end: usize) -> usize {
        self.row.lock().expect("no panic").below(end)
    }

    fn node(&self) -> Node {
        match self.below(8) {
            0 => Node(self.row.lock().expect("no panic").node()),
            1 => self.client.root(),
            _ => self.nodes[self.below(self.nodes.len())],
        }
    }

    fn name(&self) -> &'static [u8] {
        [&b"a"[..], b"b", b"c"][self.below(3)]
    }

    fn flags(&self) -> OpenFlags {
        OpenFlags([0, 1, 2, 0o1002, 0o2001, 0o200][self.below(6)])
    }

    fn got(&mut self, entry: Result<Entry>) {
        if let Ok(entry) = entry {
            checked(&entry.attributes);
            assert!(entry.attributes.node.0 > 1);
            self.nodes.push(entry.attributes.node);
        }
    }

    fn opened(&mut self, opened: Result<Opened>) {
        if let Ok(Opened::Driven(file)) = opened
            && self.files.len() < 20
        {
            self.files.push(file);
        }
    }

    fn step(&mut self) {
        let (node, name, flags) = (self.node(), self.name(), self.flags());
        match self.below(22) {
            0..4 => {
                let found = self.client.lookup(&WHO, node, name);
                self.got(found);
            }
            4 => {
                if let Ok(attributes) = self.client.attributes(&WHO, node) {
                    checked(&attributes);
                    assert_eq!(attributes.node, node);
                }
            }
            5 => {
                let walked = self.client.walk(&WHO, node, b"a/b/c");
                if let Ok(walked) = walked {
                    assert!(walked.consumed <= 5);
                    self.got(walked.entry.ok_or_else(|| culvert::Errno::EIO.into()));
                }
            }
            6 => {
                let opened = self.client.open(&WHO, node, flags);
                self.opened(opened);
            }
            7 => match self.client.create(&WHO, node, name, flags, 0o644) {
                Ok((entry, opened)) => {
                    self.got(Ok(entry));
                    self.opened(Ok(opened));
                }
                Err(error) => assert!(error.errno().raw() > 0),
            },
            8 => {
                let made = self.client.mkdir(&WHO, node, name, 0o755);
                self.got(made);
                let made = self.client.symlink(&WHO, node, name, b"x");
                self.got(made);
            }
            9 => {
                let made = self.client.link(&WHO, node, self.node(), name);
                self.got(made);
                let made = self.client.mknod(&WHO, node, name, 0o10644, 0);
                self.got(made);
            }
            10 => {
                let _ = self.client.unlink(&WHO, node, name);
                let _ = self.client.rmdir(&WHO, node, name);
            }
            11 => {
                let flags = RenameFlags(self.below(4) as u32);
                let to = (self.node(), self.name());
                let _ = self.client.rename(&WHO, (node, name), to, flags);
            }
            12 => {
                let changes = SetAttributes {
                    size: (self.below(2) == 0).then_some(7),
                    uid: (self.below(2) == 0).then_some(7),
                    permissions: (self.below(2) == 0).then_some(0o6777),
                    ..SetAttributes::default()
                };
                if let Ok(attributes) = self.client.set_attributes(&WHO, node, &changes) {
                    checked(&attributes);
                }
            }
            13 => {
                if let Ok(target) = self.client.readlink(&WHO, node) {
                    assert!((1..=4095).contains(&target.len()) && !target.contains(&0));
                }
                let _ = self.client.access(&WHO, node, Access(7));
            }
            14 => {
                let _ = self.client.get_xattr(&WHO, node, b"user.a");
                if let Ok(names) = self.client.list_xattr(&WHO, node) {
                    assert!(names.is_empty() || names.ends_with(b"\0"));
                }
                let _ = self.client.set_xattr(&WHO, node, b"user.a", b"v", 0);
                let _ = self.client.remove_xattr(&WHO, node, b"user.a");
            }
            15 => {
                if let Ok(OpenedDirectory::Driven(directory)) =
                    self.client.open_directory(&WHO, node, OpenFlags::READ)
                {
                    self.directories.push(directory);
                }
                let _ = self.client.sync_directory(node, true);
            }
            16 => {
                let mut left = 30;
                let sink = &mut |entry: DirectoryEntry<'_>| {
                    assert!((1..=255).contains(&entry.name.len()));
                    assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
                    assert!(entry.next != 0 && entry.next <= i64::MAX as u64);
                    assert!(entry.name != b"." && entry.name != b"..");
                    left -= 1;
                    left > 0
                };
                let _ = match self.directories.last() {
                    Some(directory) => directory.read(0, sink),
                    None => self.client.read_directory(&WHO, node, 0, sink),
                };
            }
            17 => {
                self.client.forget(node, self.below(3) as u64);
                if self.client.hold(node).is_ok() {
                    self.client.release(node);
                }
                let _ = (self.client.path_of(node), self.client.parent(node));
            }
            18 if self.below(10) == 0 => {
                self.client.finish();
                self.directories.clear();
                self.files.clear();
            }
            _ => self.on_a_file(),
        }
    }

    fn on_a_file(&mut self) {
        let which = self.below(self.files.len());
        let Some(file) = self.files.get(which) else {
            return;
        };
        let (mut bytes, offset) = ([0; 50], self.below(9) as u64);
        let lock = Lock {
            kind: LockKind::Exclusive,
            start: 0,
            end: 9,
            pid: 1,
        };
        let owner = LockOwner(1);
        match self.below(12) {
            0..2 => {
                if let Ok(read) = file.read_at(offset, &mut &mut bytes[..]) {
                    assert!(read <= 50);
                }
            }
            2..4 => {
                if let Ok(written) = file.write_at(offset, &mut &bytes[..]) {
                    assert!(written <= 50);
                }
            }
            4 => {
                let _ = file.append(&mut &bytes[..]);
                let _ = file.attributes(&WHO);
            }
            5 => {
                let _ = (file.sync(true), file.flush(), file.poll(None));
            }
            6 => {
                let _ = file.allocate(0, offset, 5);
                let _ = file.seek(offset, Whence::Data);
            }
            7 => {
                let to = &*self.files[self.below(self.files.len())];
                if let Ok(copied) = file.copy_range(offset, to, 0, 30) {
                    assert!(copied <= 30);
                }
            }
            8 => {
                let _ = file.get_lock(owner, &lock);
                let _ = file.set_lock(owner, &lock, Wait::Never);
                let _ = file.flock(owner, LockKind::Shared, Wait::Never);
            }
            9 => {
                let _ = file.ioctl(0xc010_0000, &mut bytes[..16]);
            }
            10 => {
                let _ = file.save();
            }
            _ => {
                self.files.swap_remove(which);
            }
        }
    }
}

/// Plays until the numbers end.
pub fn play(numbers: impl FnMut() -> Option<u64> + Send + 'static) {
    let row = Arc::new(Mutex::new(Row(Box::new(numbers))));
    let answers = Arc::clone(&row);
    let server = Server::new(move |_, operation| {
        // A thread that holds the row asks nothing meanwhile.
        Some(answers.lock().expect("no panic").reply(operation))
    });
    let client = server.client();
    let mut player = Player {
        nodes: vec![client.root()],
        client,
        row,
        files: Vec::new(),
        directories: Vec::new(),
    };
    // Each step takes some numbers; at their end all of them are 0.
    for _ in 0..3000 {
        player.step();
    }
}
