//! A source tree: a part of Debian's linux-source unpacked, searched, copied and built, natively,
//! on a kernel mount, on bindfs, and inside the programs.

use crate::compare::{Way, compare};
use crate::figure::{Figure, Judged};
use crate::mount::{at_least, mounts};
use crate::tools::{Place, numbers, sh, succeeds};
use crate::writing::Worker;

const GROUP: &str = "source tree in memory: linux-source, 15,000 files without those of most \
    drivers, architectures and file systems";
const RUN: &str = "`culvert run`";

const BUILD: &str = "make -s tinyconfig >/dev/null 2>&1\nmake -s -j2 kernel/ >/dev/null 2>&1";
const BUILD_NAME: &str = "`make tinyconfig`, `make -j2 kernel/`";

/// What is needed of the tree to build `kernel/` of the smallest configuration.
const PARTS: &str = "block certs crypto fs include init io_uring ipc kernel lib mm scripts \
    security usr virt arch/x86 tools/objtool tools/lib tools/include tools/arch tools/build \
    tools/scripts";

/// The archive of the part: its path; none where linux-source is not installed.
fn archive(place: &Place) -> Option<String> {
    let source = sh("ls ${LINUX_SOURCE:-/usr/src/linux-source-*.tar.xz} 2>/dev/null | head -n 1");
    let source = source.trim();
    if source.is_empty() {
        eprintln!(
            "not measured: no /usr/src/linux-source-*.tar.xz (apt-get install linux-source, or \
            LINUX_SOURCE=path)"
        );
        return None;
    }
    eprintln!("  unpacking a part of {source}");
    let archive = place.path("linux.tar");
    sh(&format!(
        "mkdir {0}/whole && cd {0}/whole
         parts=; for part in {PARTS}; do parts=\"$parts */$part\"; done
         set -f; tar -xJf {source} --no-same-owner --wildcards --no-wildcards-match-slash \
         --exclude '*/fs/*/*.[ch]' $parts '*/Makefile' '*/Kconfig' '*/Kbuild' '*/COPYING' || [ $? \
         = 2 ]
         tar -xJf {source} --no-same-owner --wildcards '*/Kconfig*' '*/Makefile*' '*/Kbuild'
         set +f; mv linux-source-* linux; tar -cf {archive} linux; cd ..; rm -rf whole",
        place.path("")
    ));
    Some(archive)
}

/// Building alone, natively and inside the programs: a part of the native speed is asked of that.
pub fn build(place: &Place) -> Vec<Figure> {
    let Some(archive) = archive(place) else {
        return Vec::new();
    };
    let needs = "make flex bison bc";
    if !succeeds(&format!("command -v {needs}")) {
        eprintln!("not measured, one of {needs} is not installed: building Linux");
        return Vec::new();
    }
    let worker = Worker::new(&place.path("linux"), 10_000);
    let volume = format!("--no-private -v {0}/source:{0}/target", worker.directory);
    let ways = [worker.native("native"), worker.through(place, RUN, &volume)];
    let script = script(place, &format!("tar -xf {archive}; cd linux"), BUILD);
    sh(&format!("chmod 644 {archive}"));
    let rows = compare(&ways, "sh", &script, "", 1);
    rows.iter()
        .flat_map(|row| row.figures(GROUP, BUILD_NAME, "ms", |_| Judged::Speed(0.96)))
        .collect()
}

/// A script that does `work` in a directory of its own, after `prepare`, and prints milliseconds.
fn script(place: &Place, prepare: &str, work: &str) -> String {
    let script = place.path("linux.sh");
    let text = format!(
        "set -e\ncd \"$1\"\nmkdir work\ntrap 'cd \"$1\"; rm -rf work' EXIT\ncd \
        work\n{prepare}\nb=$(date +%s%N)\n{work}\ne=$(date +%s%N)\necho time $(((e - b) / \
        1000000))\n"
    );
    std::fs::write(&script, text).expect("the directory is ours");
    sh(&format!("chmod 644 {script}"));
    script
}

/// Unpacking, searching, copying and building.
pub fn linux(place: &Place) -> Vec<Figure> {
    let Some(archive) = archive(place) else {
        return Vec::new();
    };
    let worker = Worker::new(&place.path("linux"), 10_000);
    let mounts = match numbers("id -u")[0] == 0.0 {
        true => mounts(place, &worker, false),
        false => Vec::new(),
    };
    let mut ways = vec![worker.native("native")];
    ways.extend(mounts.iter().map(|mounted| mounted.way(&worker)));
    let volume = format!("-v {0}/source:{0}/target", worker.directory);
    ways.push(worker.through(place, RUN, &volume));
    ways.retain(Way::works);

    let mut figures = Vec::new();
    let unpack = format!("tar -xf {archive}");
    // What, what precedes it, the work, what it needs, how often, and the part of the native speed
    // that is asked of kernel mounts: a fifth to unpack, 1 / 1.15 to build.
    let table: [(&str, &str, &str, &str, usize, f64); 4] = [
        ("`tar -x`", ":", &unpack, "tar", 3, 0.2),
        (
            "`find -type f -size +8k`",
            &unpack,
            "find linux -type f -size +8k >/dev/null",
            "find",
            1,
            0.0,
        ),
        (
            "`rsync -a` to another directory",
            &unpack,
            "rsync -a linux/ copy/",
            "rsync",
            1,
            0.0,
        ),
        (
            BUILD_NAME,
            &format!("{unpack}; cd linux"),
            BUILD,
            "make flex bison bc",
            1,
            0.87,
        ),
    ];
    for (what, prepare, work, needs, rounds, least) in table {
        if let Some(lacking) = needs
            .split(' ')
            .find(|program| !succeeds(&format!("command -v {program}")))
        {
            eprintln!("not measured, {lacking} is not installed: {what}");
            continue;
        }
        let script = script(place, prepare, work);
        sh(&format!("chmod 644 {archive}"));
        for row in compare(&ways, "sh", &script, "", rounds) {
            figures.extend(row.figures(GROUP, what, "ms", at_least(least)));
        }
    }
    figures
}
