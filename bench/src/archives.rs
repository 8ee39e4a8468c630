//! Random reads in archives, also in one that lies in another, beside what mounts archives; and
//! file systems in memory of which half is spilled, beside the directory that it is spilled to.

use crate::figure::{Figure, Judged};
use crate::tools::{Place, median, numbers, sh, succeeds};

const GROUP: &str = "overlay";
const ROUNDS: usize = 3;

fn megabytes(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// A read of 4 KiB at a random place of a member of a tar.gz (`ARCHIVE=` other megabytes than 256),
/// and of one in a tar.gz in a zip.
pub fn random(place: &Place) -> Vec<Figure> {
    let (base, reader) = (place.path("random"), place.program("random"));
    let size = megabytes("ARCHIVE", "256");
    sh(&format!(
        "mkdir -p {base}/mnt {base}/fuse {base}/cache && cd {base}
         base64 /dev/urandom | head -c {size}M > member
         tar c member | gzip -1 > m.tar.gz && rm member && zip -q z.zip m.tar.gz"
    ));
    let run = |volume: &str, file: &str| {
        format!(
            "XDG_CACHE_HOME={base}/cache {} run -v {base}/{volume} -- {reader} '{base}/mnt/{file}'",
            place.culvert
        )
    };
    let fuse = format!("{base}/fuse");
    let ratarmount = std::env::var("RATARMOUNT").unwrap_or_else(|_| "ratarmount".to_owned());
    let ratarmount = |words: &str| format!("{ratarmount} --index-file :memory: {words} {fuse}");
    let avfs = |file: &str| (format!("avfsd {fuse}"), format!("{fuse}{base}/{file}"));
    [
        (
            "random 4 KiB read of a member of a tar.gz",
            run(&format!("m.tar.gz:{base}/mnt"), "member"),
            vec![
                (
                    "ratarmount",
                    (
                        ratarmount(&format!("{base}/m.tar.gz")),
                        format!("{fuse}/member"),
                    ),
                ),
                (
                    "archivemount",
                    (
                        format!("archivemount -o readonly {base}/m.tar.gz {fuse}"),
                        format!("{fuse}/member"),
                    ),
                ),
                ("avfs", avfs("m.tar.gz#/member")),
            ],
        ),
        (
            "random 4 KiB read of a member of a tar.gz in a zip",
            run(&format!("z.zip:{base}/mnt:avfs"), "m.tar.gz#/member"),
            vec![
                (
                    "ratarmount",
                    (
                        ratarmount(&format!("--recursive {base}/z.zip")),
                        format!("{fuse}/m.tar.gz/member"),
                    ),
                ),
                ("avfs", avfs("z.zip#/m.tar.gz#/member")),
            ],
        ),
    ]
    .into_iter()
    .map(|(what, ours, others)| {
        // Once before, for the index.
        sh(&format!("{ours} 1 20"));
        let mean = || numbers(&format!("{ours} 2000 20"))[1];
        let ours = median((0..ROUNDS).map(|_| mean()).collect());
        let beside = others.into_iter().filter_map(|(name, (mount, file))| {
            if !succeeds(&format!("test -w /dev/fuse && {mount}")) {
                eprintln!("not measured, does not work here: {mount}");
                return None;
            }
            // avfsd may wait for itself for ever, where an archive lies in another.
            let read = format!("timeout 60 {reader} '{file}' 100 30");
            let found = succeeds(&read).then(|| numbers(&read)[1]);
            sh(&format!("umount {fuse} 2> /dev/null || umount -l {fuse}"));
            found.map(|found| (name.to_owned(), found))
        });
        let beside = beside.collect();
        let figure = Figure::new(GROUP, what, None, ours, "µs", Judged::Ahead).beside(beside);
        figure.note(format!("{size} MB, mean"))
    })
    .collect()
}

/// A file of 512 MB (`SPILL=` other megabytes), half of it in memory and half in a directory,
/// beside a file of the directory.
pub fn spilled(place: &Place) -> Vec<Figure> {
    let (base, reader) = (place.path("spilled"), place.program("random"));
    let size: u64 = megabytes("SPILL", "512").parse().expect("a number");
    sh(&format!("mkdir -p {base}/mnt {base}/spill"));
    let run = format!(
        "{} run --no-private --mount type=memory,size={}m,spill={base}/spill,target={base}/mnt --",
        place.culvert,
        size / 2
    );
    let work = |file: &str| {
        format!(
            "sh -c 't() {{ a=$(date +%s%N); \"$@\" || exit 1; b=$(date +%s%N); \
             echo $(((b - a) / 1000)); }}
             t dd if=/dev/zero of={file} bs=1M count={size} status=none
             t dd if={file} of=/dev/null bs=1M status=none
             {reader} {file} 20000 20; rm {file}'"
        )
    };
    let (natively, ours) = (
        work(&format!("{base}/spill/file")),
        format!("{run} {}", work(&format!("{base}/mnt/file"))),
    );
    let what = [
        (0, 1e-3, "ms", "written in order"),
        (1, 1e-3, "ms", "read in order"),
        (3, 1.0, "µs", "read at random places, 4 KiB"),
    ];
    let mut taken: [Vec<Vec<f64>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        taken[0].push(numbers(&natively));
        taken[1].push(numbers(&ours));
    }
    what.into_iter()
        .map(|(at, scale, unit, what)| {
            let [native, ours] = [0, 1].map(|which: usize| {
                let values = taken[which].iter().map(|values| values[at] * scale);
                median(values.collect())
            });
            let what = format!("`memory`, half spilled: {size} MB {what}");
            Figure::new(GROUP, what, Some(native), ours, unit, Judged::Stated)
        })
        .collect()
}
