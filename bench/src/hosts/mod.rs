//! FUSE servers without a kernel mount beside the same server behind the kernel: bindfs as it is,
//! which keeps nothing that it is not told to, libfuse's passthrough_ll for what bindfs does not
//! let the kernel keep, and sshfs.

mod both;
mod counted;
mod sshfs;

use crate::figure::{Figure, Judged};
use crate::tools::{Place, succeeds};
use both::Both;

const GROUP: &str = "FUSE servers without a kernel mount, by the speed of their kernel mount";
const COLD: &str = "attr_timeout=0,entry_timeout=0";
const WARM: &str = "attr_timeout=60,entry_timeout=60";
const ROUNDS: usize = 7;

/// What is done, how it is called, and the part of the kernel mount's speed.
type Row = (&'static str, &'static str, Judged);

/// All of it.
pub fn hosts(place: &Place) -> Vec<Figure> {
    if !succeeds("command -v bindfs && test -w /dev/fuse") {
        eprintln!("not measured: bindfs and /dev/fuse are wanted");
        return Vec::new();
    }
    let Some(cold) = Both::bindfs(place, "cold", COLD, "") else {
        eprintln!("not measured: bindfs does not mount here");
        return Vec::new();
    };
    let rows: [Row; 5] = [
        ("fstat DIR 4000", "cold attributes", Judged::Speed(5.0)),
        (
            "fstat DIR 4000 4",
            "the same, four programs",
            Judged::Speed(1.3),
        ),
        (
            "make DIR 400",
            "lookup, create, write 4 KiB, close, unlink",
            Judged::Speed(1.5),
        ),
        ("read DIR 2", "cold read of 128 KiB", Judged::Speed(1.7)),
        ("write DIR 2", "write of 128 KiB", Judged::Speed(1.4)),
    ];
    let mut figures = measured(&cold, rows);
    let adapter = cold.with("way=adapter");
    figures.extend(measured(
        &adapter,
        [
            (
                "fstat DIR 4000",
                "cold attributes by the adapter",
                Judged::Speed(0.75),
            ),
            (
                "make DIR 400",
                "lookup, create, write 4 KiB, close, unlink by the adapter",
                Judged::Speed(0.75),
            ),
            (
                "read DIR 2",
                "cold read of 128 KiB by the adapter",
                Judged::Speed(0.75),
            ),
        ],
    ));
    figures.extend(counted::requests(&cold));
    figures.extend(counted::idle(&cold));
    if let Some(pinned) = Both::bindfs(place, "pinned", COLD, "taskset -c 0") {
        let row = (
            "fstat DIR 4000",
            "cold attributes on one processor",
            Judged::Speed(1.2),
        );
        let read = (
            "read DIR 2",
            "cold read of 128 KiB on one processor",
            Judged::SpeedStated,
        );
        figures.extend(measured(&pinned, [row, read]));
    }
    figures.extend(warm(place));
    figures.extend(passthrough(place));
    figures.extend(sshfs::sshfs(place));
    figures
}

/// What the server lets be believed. Where it is asked all the same, as for each open, there is
/// less to gain.
fn warm(place: &Place) -> Vec<Figure> {
    let Some(warm) = Both::bindfs(place, "warm", WARM, "") else {
        return Vec::new();
    };
    let rows: [Row; 6] = [
        ("fstat DIR 20000", "warm attributes", Judged::Speed(1.5)),
        ("stat DIR 20000", "warm stat by path", Judged::Speed(1.5)),
        ("pread DIR 20000", "warm read of 4 KiB", Judged::Speed(1.5)),
        (
            "opened DIR 2000",
            "open and close, names believed",
            Judged::Speed(1.0),
        ),
        (
            "open DIR 2000",
            "open, read 4 KiB, close",
            Judged::Speed(1.0),
        ),
        ("list DIR 500", "listing of 100 names", Judged::Speed(1.0)),
    ];
    measured(&warm, rows)
}

/// libfuse's passthrough_ll, which lets listings be cached, and which may ask for the writeback
/// cache.
fn passthrough(place: &Place) -> Vec<Figure> {
    let program = place.path("passthrough_ll");
    let built = format!(
        "cc -O2 -o {program} /usr/share/doc/libfuse3-dev/examples/passthrough_ll.c \
         $(pkg-config --cflags --libs fuse3)"
    );
    if !succeeds(&built) {
        eprintln!("not measured: libfuse3-dev is wanted, for its passthrough_ll");
        return Vec::new();
    }
    let mount = |name: &str, options: &str| {
        let options = format!("source={},{options}", both::source(place));
        let kernel = format!("{program} -o {options} TARGET");
        let ours = format!(
            "type=fuse,\"command={program} -f {} %m\",name={name}",
            options
                .split(',')
                .map(|option| format!("-o {option} "))
                .collect::<String>()
        );
        Both::of(place, name, "", &kernel, ours)
    };
    let mut figures = Vec::new();
    if let Some(always) = mount("always", "cache=always,timeout=60") {
        // Its cache is dropped at each opening, for the server says no FOPEN_KEEP_CACHE.
        let rows = [
            (
                "relist DIR 4000",
                "listing of 100 names that is cached",
                Judged::Speed(1.5),
            ),
            (
                "list DIR 1000",
                "the same, which opening drops",
                Judged::Speed(1.0),
            ),
        ];
        figures.extend(measured(&always, rows));
    }
    if let Some(back) = mount("back", "cache=always,timeout=60,writeback") {
        let row = (
            "pwrite DIR 4000",
            "write of 4 KiB, the server asks for the writeback cache",
            Judged::SpeedStated,
        );
        figures.extend(measured(&back, [row]));
    }
    figures
}

/// Rows of one mount, in turn with the kernel's.
fn measured<const N: usize>(both: &Both<'_>, rows: [Row; N]) -> Vec<Figure> {
    rows.into_iter()
        .map(|(work, what, judged)| both.figure(work, what, judged))
        .collect()
}
