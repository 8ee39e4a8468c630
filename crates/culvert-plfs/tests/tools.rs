//! The tools, on containers of PLFS 2.5 and on damaged ones.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The containers that crates/culvert-drivers/tests/plfs/fixtures.rs tells of.
fn containers(name: &str) -> (Scratch, PathBuf) {
    let place =
        std::env::temp_dir().join(format!("culvert-plfs-tools-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let archive = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../culvert-drivers/tests/plfs/fixtures/plfs25.tar.gz"
    );
    let mut tar = Command::new("tar");
    tar.args(["-xzf", archive, "--no-same-owner", "-C"])
        .arg(&place);
    assert!(tar.status().unwrap().success());
    let back = place.join("back1");
    (Scratch(place), back)
}

fn text(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The one file in `dir` whose name begins so.
fn find(dir: &Path, start: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(start)
    };
    entries.find(is).unwrap()
}

#[test]
fn small_files_are_left_to_a_mount() {
    let (_scratch, back) = containers("small");
    let small = back.join("SMALLFILECONTAINER");
    std::fs::create_dir(&small).unwrap();
    let list = text(|out| culvert_plfs::list(&back, out));
    assert!(
        list.contains("small                  0 SMALLFILECONTAINER\n"),
        "{list}"
    );
    for path in [small, back.join("a small file")] {
        let told = [
            culvert_plfs::map(&path, &mut Vec::new(), &mut |_, _| ()).map(drop),
            culvert_plfs::check(&path, &mut |_, _| ()).map(drop),
            culvert_plfs::recover(&path, &mut |_, _| ()).map(drop),
            culvert_plfs::version(&path).map(drop),
        ];
        for told in told {
            let told = told.unwrap_err().to_string();
            assert!(told.contains("workload=small_file"), "{told}");
        }
    }
    let missing = culvert_plfs::version(&back.join("cut/none")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let directory = culvert_plfs::version(&back).unwrap_err().to_string();
    assert!(directory.contains("no access file"), "{directory}");
}

#[test]
fn a_map_has_each_range_once() {
    let (_scratch, back) = containers("map");
    let map = text(|out| culvert_plfs::map(&back.join("overlaps"), out, &mut |_, _| ()));
    let lines: Vec<Vec<&str>> = map.lines().map(|line| line.split(' ').collect()).collect();
    let ranges: Vec<_> = lines
        .iter()
        .map(|line| (line[0], line[1], line[2] == "hole"))
        .collect();
    let want = [
        ("0", "5", false),
        ("5", "7", false),
        ("12", "6", false),
        ("18", "2", false),
        ("20", "20", true),
        ("40", "2", false),
    ];
    assert_eq!(ranges, want, "{map}");
    let at = |offset| {
        text(|out| culvert_plfs::query(&back.join("overlaps"), Some(offset), out, &mut |_, _| ()))
    };
    assert!(
        at(19).ends_with(" 19\n") && at(13).ends_with(" 1\n"),
        "{}{}",
        at(19),
        at(13)
    );
    assert_eq!(
        (at(25), at(42)),
        ("hole\n".into(), "behind the end, which is 42\n".into())
    );
    let all = text(|out| culvert_plfs::query(&back.join("strided"), None, out, &mut |_, _| ()));
    assert_eq!(all.lines().count(), 6);
    let list = text(|out| culvert_plfs::list(&back, out));
    assert!(
        list.contains("600 strided") && list.contains("15 cut"),
        "{list}"
    );
    let version = culvert_plfs::version(&back.join("cut")).unwrap();
    assert_eq!(
        version,
        "PLFS 2.5.0, format 1.0, check sum of back ends 667834764\n"
    );
}

/// PLFS's own flattened index of the same records has the same ranges and places.
#[test]
fn flattened_as_plfs_does_it() {
    let (_scratch, back) = containers("flatten");
    let theirs = std::fs::read(back.join("flattened/global.index")).unwrap();
    let count = culvert_plfs::flatten(&back.join("strided"), &mut |_, _| ()).unwrap();
    let ours = std::fs::read(back.join("strided/global.index")).unwrap();
    assert_eq!(count, 30);
    assert_eq!(ours[..8], theirs[..8]);
    let places = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let records = bytes[8..8 + 30 * 48].chunks_exact(48);
        // Which number a dropping has is any order.
        records
            .map(|record| [&record[..24], &record[44..]].concat())
            .collect()
    };
    assert_eq!(places(&ours), places(&theirs));
    assert!(ours.ends_with(b"\n\0"));
    let svg = culvert_plfs::plot(&back.join("strided"), &mut |_, _| ()).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("3 writers, 30 records"),
        "{svg}"
    );
}

#[test]
fn what_killed_writers_leave_is_put_in_order() {
    let (_scratch, back) = containers("recover");
    let container = back.join("strided");
    assert_eq!(
        culvert_plfs::check(&container, &mut |_, _| ())
            .unwrap()
            .traces,
        [""; 0]
    );
    std::fs::write(container.join("meta/open.vm.1"), "").unwrap();
    std::fs::remove_file(find(&container.join("meta"), "600.")).unwrap();
    let index = find(&container.join("hostdir.3"), "dropping.index.");
    let mut bytes = std::fs::read(&index).unwrap();
    bytes.extend([1, 2, 3]);
    std::fs::write(&index, &bytes).unwrap();
    let found = culvert_plfs::check(&container, &mut |_, _| ()).unwrap();
    assert_eq!(
        (found.damage.len(), found.traces.len(), found.records),
        (0, 2, 30)
    );
    assert_eq!(
        culvert_plfs::recover(&container, &mut |_, _| ())
            .unwrap()
            .len(),
        2
    );
    let found = culvert_plfs::check(&container, &mut |_, _| ()).unwrap();
    assert!(
        found.damage.is_empty() && found.traces.is_empty(),
        "{found:?}"
    );
    assert!(text(|out| culvert_plfs::list(&back, out)).contains("600 strided"));
    // What cannot be repaired is said.
    std::fs::write(
        find(&container.join("hostdir.3"), "dropping.data."),
        "short",
    )
    .unwrap();
    assert!(
        !culvert_plfs::check(&container, &mut |_, _| ())
            .unwrap()
            .damage
            .is_empty()
    );
    let error = culvert_plfs::recover(&container, &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("cannot be repaired"), "{error}");
}

/// Links in a container lead nowhere: whoever made it may not be whoever repairs it.
#[test]
fn recover_follows_no_links() {
    let (scratch, back) = containers("links");
    let container = back.join("strided");
    let victim = scratch.0.join("victim");
    std::fs::write(&victim, [7; 50]).unwrap();
    let index = find(&container.join("hostdir.3"), "dropping.index.");
    std::fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink(&victim, &index).unwrap();
    assert!(culvert_plfs::recover(&container, &mut |_, _| ()).is_err());
    let other = back.join("cut");
    std::fs::remove_dir_all(other.join("meta")).unwrap();
    std::fs::create_dir(scratch.0.join("meta")).unwrap();
    std::fs::write(scratch.0.join("meta/open.vm.1"), "").unwrap();
    std::os::unix::fs::symlink(scratch.0.join("meta"), other.join("meta")).unwrap();
    assert!(culvert_plfs::recover(&other, &mut |_, _| ()).is_err());
    assert_eq!(std::fs::read(&victim).unwrap(), [7; 50]);
    assert!(scratch.0.join("meta/open.vm.1").exists());
}
