//! Several processes on one file system, and processes that are killed.

use crate::{
    random::Random,
    tools::{Mapped, Run},
    worker,
};
use culvert::{
    Caller, File, FileSystem, OpenFlags, Opened, RenameFlags, SetAttributes, mount::Mount,
    testing::caller,
};

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => panic!("backed"),
    }
}

/// Length of a record of [`records`].
const RECORD: usize = 1000;

/// Appends records, each filled with its writer's letter.
#[test]
fn appends_of_processes_are_whole() {
    if let Some((fs, _, number)) = worker::join() {
        let flags = OpenFlags::READ_WRITE;
        let (_, file) = fs
            .create(&caller(), fs.root(), b"log", flags, 0o644)
            .unwrap();
        let (file, record) = (driven(file), [b'a' + number as u8; RECORD]);
        for _ in 0..2000 {
            assert_eq!(file.append(&mut &record[..]).unwrap().1, RECORD);
        }
        return;
    }
    let run = Run::new();
    let (mount, fs) = run.fresh(&[]);
    let name = "processes::appends_of_processes_are_whole";
    let workers: Vec<_> = (0..4)
        .map(|number| worker::start(name, &mount, number))
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    let node = fs
        .lookup(&caller(), fs.root(), b"log")
        .unwrap()
        .attributes
        .node;
    let file = driven(fs.open(&caller(), node, OpenFlags::READ).unwrap());
    let mut bytes = vec![0; 4 * 2000 * RECORD + 1];
    let length = file.read_at(0, &mut bytes.as_mut_slice()).unwrap();
    assert_eq!(length, 4 * 2000 * RECORD);
    let mut counts = [0; 4];
    for record in bytes[..length].chunks(RECORD) {
        assert!(record.iter().all(|&byte| byte == record[0]));
        counts[usize::from(record[0] - b'a')] += 1;
    }
    assert_eq!(counts, [2000; 4]);
    drop(file);
    run.assert_consistent(&mount);
}

/// Random changes, for as long as it lives.
fn change(fs: &dyn FileSystem, random: &mut Random) {
    let me = caller();
    let mut dirs = vec![fs.root()];
    let mut files: Vec<Box<dyn File>> = Vec::new();
    loop {
        let name = |random: &mut Random| {
            format!(
                "{:0>1$}",
                random.below(40),
                1 + 30 * random.below(2) as usize
            )
        };
        let (old, new) = (name(random), name(random));
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let dir = dirs[random.below(dirs.len() as u64) as usize];
        let to = dirs[random.below(dirs.len() as u64) as usize];
        match random.below(15) {
            0..=2 => {
                if let Ok((_, file)) = fs.create(&me, dir, old, OpenFlags::READ_WRITE, 0o644) {
                    files.push(driven(file));
                    if files.len() > 8 {
                        files.swap_remove(random.below(8) as usize);
                    }
                }
            }
            3 => {
                if let Ok(made) = fs.mkdir(&me, dir, old, 0o755) {
                    dirs.push(made.attributes.node);
                    if dirs.len() > 20 {
                        dirs.remove(1 + random.below(19) as usize);
                    }
                }
            }
            4 | 5 => drop(fs.unlink(&me, dir, old)),
            6 => drop(fs.rmdir(&me, dir, old)),
            7 => {
                let flags = RenameFlags([0, 0, 1, 2, 4][random.below(5) as usize]);
                let _ = fs.rename(&me, (dir, old), (to, new), flags);
            }
            8 => drop(fs.symlink(&me, dir, old, b"somewhere")),
            9 => {
                if let Ok(found) = fs.lookup(&me, dir, old) {
                    let node = found.attributes.node;
                    let _ = fs.link(&me, node, to, new);
                    let value = vec![1; random.below(9000) as usize];
                    let _ = fs.set_xattr(&me, node, b"user.x", &value, 0);
                }
            }
            _ if files.is_empty() => {}
            kind => {
                let file = &files[random.below(files.len() as u64) as usize];
                let offset = random.below(300_000);
                match kind {
                    14 => {
                        let stores = random.below(2) == 0;
                        let size = file
                            .attributes(&Caller::SYSTEM)
                            .map_or(0, |found| found.size);
                        let mapped = Mapped::new(&**file, size.max(1) as usize, stores);
                        if let Ok(mapped) = &mapped
                            && random.below(4) == 0
                        {
                            // Others may cut it meanwhile, and a store beyond the end would end
                            // this process: which is what this test does anyway.
                            mapped.store(0, b"x");
                        }
                    }
                    10 | 11 => {
                        let bytes = vec![5; random.below(40_000) as usize];
                        let _ = file.write_at(offset, &mut &bytes[..]);
                    }
                    12 => {
                        let size = Some(offset);
                        let changes = SetAttributes {
                            size,
                            ..SetAttributes::default()
                        };
                        let _ = file.set_attributes(&Caller::SYSTEM, &changes);
                    }
                    _ => {
                        let mode = [0, 1, 3, 0x10][random.below(4) as usize];
                        let _ = file.allocate(mode, offset, 1 + random.below(60_000));
                    }
                }
            }
        }
    }
}

#[test]
fn killed_processes_leave_a_consistent_file_system() {
    if let Some((fs, _, number)) = worker::join() {
        change(
            &*fs,
            &mut Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        );
    }
    let run = Run::new();
    let made = run.fresh(&[("size", "16m")]);
    killed_ones(&run, made, 60);
}

/// Kills workers that change what was `made`, so often.
pub fn killed_ones(run: &Run, (mount, _fs): (Mount, Box<dyn FileSystem>), rounds: u64) {
    let name = "processes::killed_processes_leave_a_consistent_file_system";
    let start = |number| worker::start(name, &mount, number);
    let mut random = Random(99);
    let mut workers: Vec<_> = (1..4).map(start).collect();
    for round in 0..rounds {
        std::thread::sleep(std::time::Duration::from_micros(500 + random.below(20_000)));
        let at = random.below(3) as usize;
        workers[at].kill().unwrap();
        workers[at].wait().unwrap();
        if round % 12 == 11 {
            for worker in &mut workers {
                worker.kill().unwrap();
                worker.wait().unwrap();
            }
            run.assert_consistent(&mount);
            workers = (1..4).map(|number| start(number + 10 * round)).collect();
        } else {
            workers[at] = start(round + 100);
        }
    }
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    run.assert_consistent(&mount);
    // What the dead had open without a name is given back, and everything else can be.
    let fs = run.open(&mount).unwrap();
    remove_all(&*fs, fs.root());
    drop(fs);
    run.assert_consistent(&mount);
    let fs = run.open(&mount).unwrap();
    let found = fs.statfs().unwrap();
    assert_eq!(found.files - found.files_free, 1, "only the root is left");
}

/// Removes all below a directory.
pub fn remove_all(fs: &dyn FileSystem, dir: culvert::Node) {
    let mut names = Vec::new();
    let _ = fs.read_directory(&Caller::SYSTEM, dir, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.kind));
        true
    });
    for (name, kind) in names {
        if kind == culvert::FileKind::Directory {
            if let Ok(found) = fs.lookup(&caller(), dir, &name) {
                remove_all(fs, found.attributes.node);
            }
            let _ = fs.rmdir(&caller(), dir, &name);
        } else {
            let _ = fs.unlink(&caller(), dir, &name);
        }
    }
}
