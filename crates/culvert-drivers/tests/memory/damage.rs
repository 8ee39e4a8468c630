//! Shared files with wrong bytes in them: errors, never a crash, never an endless loop.

use crate::{random::Random, tools::Run, worker};
use culvert::{
    Caller, File, FileKind, FileSystem, Node, OpenFlags, Opened, SetAttributes, testing::caller,
};
use std::fs;

fn explore(made: &dyn FileSystem, dir: Node, depth: u32, left: &mut u32) {
    let mut names = Vec::new();
    let _ = made.read_directory(&Caller::SYSTEM, dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < 500
    });
    for name in names {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(found) = made.lookup(&caller(), dir, &name) else {
            continue;
        };
        let node = found.attributes.node;
        let _ = (
            made.readlink(&Caller::SYSTEM, node),
            made.list_xattr(&Caller::SYSTEM, node),
        );
        if (*left).is_multiple_of(50) {
            let _ = made.path_of(node);
        }
        let _ = made.get_xattr(&Caller::SYSTEM, node, b"user.a");
        match found.attributes.kind {
            FileKind::Directory if depth < 6 => explore(made, node, depth + 1, left),
            FileKind::Regular => {
                if let Ok(Opened::Driven(file)) = made.open(&caller(), node, OpenFlags::READ_WRITE)
                {
                    use_file(&*file);
                }
            }
            _ => {}
        }
        let _ = made.rename(&caller(), (dir, &name), (dir, b"moved"), Default::default());
        let _ = made.unlink(&caller(), dir, b"moved");
    }
    let _ = made.mkdir(&caller(), dir, b"new", 0o755);
}

fn use_file(file: &dyn File) {
    let mut bytes = vec![0; 100_000];
    let _ = file.read_at(0, &mut bytes.as_mut_slice());
    let _ = file.write_at(5000, &mut &bytes[..]);
    let _ = file.append(&mut &bytes[..10]);
    let _ = file.seek(0, culvert::Whence::Hole);
    let _ = file.seek(0, culvert::Whence::Data);
    let _ = file.allocate(3, 0, 50_000);
    let _ = file.set_attributes(
        &Caller::SYSTEM,
        &SetAttributes {
            size: Some(100),
            ..SetAttributes::default()
        },
    );
}

#[test]
fn wrong_bytes_are_errors() {
    if let Some((made, source, _)) = worker::join() {
        explore(&*made, made.root(), 0, &mut 1000);
        let _ = made.statfs();
        drop(made);
        let _ = culvert_drivers::memory::testing::check(&source);
        return;
    }
    let run = Run::new();
    let (mount, made) = run.fresh(&[("size", "32m")]);
    for number in 0..200u32 {
        let name = format!("file {number}");
        let flags = OpenFlags::READ_WRITE;
        let created = made.create(&caller(), made.root(), name.as_bytes(), flags, 0o644);
        let (entry, Opened::Driven(file)) = created.unwrap() else {
            panic!()
        };
        let bytes = vec![number as u8; number as usize * 300];
        file.write_at(u64::from(number) * 100, &mut &bytes[..])
            .unwrap();
        let _ = made.set_xattr(&caller(), entry.attributes.node, b"user.a", b"value", 0);
        if number % 20 == 0 {
            let name = format!("directory {number}");
            made.mkdir(&caller(), made.root(), name.as_bytes(), 0o755)
                .unwrap();
        }
    }
    drop(made);
    let path = String::from_utf8(mount.source.clone()).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut random = Random(7);
    for round in 0..30 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(200) {
            // Where metadata lie, mostly.
            let end = [whole.len() as u64, 600_000, 4096][random.below(3) as usize];
            let at = random.below(end) as usize;
            if bytes[at] != 0 || random.below(20) == 0 {
                bytes[at] = random.below(256) as u8;
            }
        }
        bytes[..8].copy_from_slice(&whole[..8]);
        let copy = format!("{path}.{round}");
        fs::write(&copy, &bytes).unwrap();
        let made_private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&copy, made_private).unwrap();
        let mut damaged = mount.clone();
        damaged.source = copy.clone().into_bytes();
        let mut worker = worker::start("damage::wrong_bytes_are_errors", &damaged, round);
        let ended = ends_within(&mut worker, 60);
        assert!(ended, "round {round}: crashed, or did not end");
        fs::remove_file(&copy).unwrap();
    }
}

fn ends_within(worker: &mut std::process::Child, seconds: u64) -> bool {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    while std::time::Instant::now() < end {
        if let Some(status) = worker.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let _ = worker.kill();
    false
}
