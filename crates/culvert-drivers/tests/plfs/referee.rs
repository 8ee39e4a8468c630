//! PLFS 2.5 itself reads what we write, and we what it writes. `CULVERT_PLFS_CORE` names a checkout of
//! plfs-core, tag 2.5, built in its directory `build` (docs/testing.md says how); without it nothing
//! is tested here.

use crate::tools::{Scratch, create_file, open, open_file, open_for, read_all, truncate, write_at};
use culvert::{FileSystem, OpenFlags, testing::caller};
use culvert_drivers::Environment;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PLFS's mount point, which exists in its configuration alone.
const POINT: &str = "/culvert-plfs-referee";

struct Referee {
    scratch: Scratch,
    program: PathBuf,
    configuration: PathBuf,
}

impl Referee {
    /// None without PLFS.
    fn new(backends: usize) -> Option<Self> {
        let core = PathBuf::from(std::env::var_os("CULVERT_PLFS_CORE")?);
        let scratch = Scratch::new(backends);
        let program = scratch.root.join("referee");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plfs/referee.c");
        let library = core.join("build/lib");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-w", source, "-o"]).arg(&program);
        for (option, directory) in [("-I", "build"), ("-I", "src"), ("-L", "build/lib")] {
            cc.arg(option).arg(core.join(directory));
        }
        cc.arg("-lplfs")
            .arg(format!("-Wl,-rpath,{}", library.display()));
        assert!(cc.status().unwrap().success());
        let configuration = scratch.root.join("plfsrc");
        let locations = scratch.backends.iter();
        let locations = locations.map(|back| format!("    - location: {}\n", back.display()));
        let text = format!(
            "- global_params:\n  num_hostdirs: 8\n- mount_point: {POINT}\n  workload: \
            shared_file\n  backends:\n{}",
            locations.collect::<String>()
        );
        std::fs::write(&configuration, text).unwrap();
        Some(Self {
            scratch,
            program,
            configuration,
        })
    }

    /// Our driver, with PLFS's configuration, on `host`.
    fn ours(&self, host: &str) -> Box<dyn FileSystem> {
        let mut mount = self.scratch.mount(&[]);
        mount.source = POINT.into();
        let configuration = self.configuration.to_str().unwrap();
        for (name, value) in [("plfsrc", configuration), ("host", host)] {
            mount.options.push((name.into(), value.into()));
        }
        let environment = Environment::default();
        let prepared = culvert_drivers::prepare(&mount, &environment, &mut |_| ());
        open(&prepared.unwrap().mount)
    }

    fn call(&self, words: &[&str]) -> Vec<u8> {
        let mut command = Command::new(&self.program);
        command.args(words).env("PLFSRC", &self.configuration);
        let done = command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {told}");
        done.stdout
    }

    /// The same bytes and the same size for both.
    fn agree(&self, name: &str, want: &[u8]) {
        let said = self.call(&["read", &format!("{POINT}/{name}")]);
        let end = said.iter().position(|byte| *byte == b'\n').unwrap();
        let size: usize = std::str::from_utf8(&said[..end]).unwrap().parse().unwrap();
        assert!(said[end + 1..] == *want, "{name}: PLFS reads other bytes");
        assert_eq!(size, want.len(), "{name}");
        let fs = self.ours("reader");
        let file = open_file(&*fs, name).unwrap();
        assert!(read_all(&*file).unwrap() == want, "{name}");
        assert_eq!(file.attributes(&caller()).unwrap().size, size as u64);
    }

    fn writes(&self, name: &str, offset: u64, text: &str) {
        let path = format!("{POINT}/{name}");
        self.call(&["write", &path, &offset.to_string(), text]);
    }
}

#[test]
fn plfs_reads_what_many_writers_wrote() {
    for backends in [1, 3] {
        let Some(referee) = Referee::new(backends) else {
            return;
        };
        let all = ["one", "two", "three", "four"].map(|host| referee.ours(host));
        drop(create_file(&*all[0], "strided"));
        let mut want = Vec::new();
        let files = all
            .each_ref()
            .map(|fs| open_for(&**fs, "strided", OpenFlags::READ_WRITE).unwrap());
        for at in 0..200usize {
            let bytes = vec![b'a' + (at % 26) as u8; 1000];
            write_at(&*files[at % 4], at as u64 * 1000, &bytes);
            want.extend(bytes);
        }
        // While it is open, and then.
        referee.agree("strided", &want);
        for (at, file) in files.iter().enumerate() {
            let bytes = vec![b'A' + at as u8; 1500];
            write_at(&**file, at as u64 * 1000 + 500, &bytes);
            want[at * 1000 + 500..][..1500].copy_from_slice(&bytes);
            file.append(&mut &b"appended"[..]).unwrap();
            want.extend(b"appended");
        }
        drop(files);
        referee.agree("strided", &want);
    }
}

#[test]
fn plfs_reads_what_was_cut_and_made_longer() {
    for backends in [1, 3] {
        let Some(referee) = Referee::new(backends) else {
            return;
        };
        let fs = referee.ours("vm");
        let (file, mut want) = (create_file(&*fs, "cut"), Vec::new());
        for (step, size) in [5000u64, 100, 7000, 0, 300, 2000, 1999]
            .into_iter()
            .enumerate()
        {
            let bytes = vec![b'a' + step as u8; 700];
            write_at(&*file, step as u64 * 300, &bytes);
            want.resize(want.len().max(step * 300 + 700), 0);
            want[step * 300..][..700].copy_from_slice(&bytes);
            referee.agree("cut", &want);
            truncate(&*file, size).unwrap();
            want.resize(size as usize, 0);
            referee.agree("cut", &want);
        }
        drop(file);
        referee.agree("cut", &want);
    }
}

#[test]
fn both_write_one_file_in_turn() {
    for backends in [1, 3] {
        let Some(referee) = Referee::new(backends) else {
            return;
        };
        referee.writes("both", 0, "of PLFS");
        let mut want = b"of PLFS".to_vec();
        for step in 0..6 {
            let fs = referee.ours("vm");
            let file = open_for(&*fs, "both", OpenFlags::READ_WRITE).unwrap();
            let text = format!("; ours {step}");
            file.append(&mut text.as_bytes()).unwrap();
            drop(file);
            want.extend(text.as_bytes());
            referee.agree("both", &want);
            let (offset, text) = (want.len() as u64 - 3, format!("PLFS {step}"));
            referee.writes("both", offset, &text);
            want.truncate(offset as usize);
            want.extend(text.as_bytes());
            referee.agree("both", &want);
        }
        // What was flattened is not the whole file after the next write of ours.
        let containers = referee
            .scratch
            .backends
            .iter()
            .map(|back| back.join("both"));
        let is_canonical = |path: &PathBuf| Path::exists(&path.join(".plfsaccess113918400"));
        let container = containers.into_iter().find(is_canonical).unwrap();
        assert!(!container.join("global.index").exists());
    }
}
