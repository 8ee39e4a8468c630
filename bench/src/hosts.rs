//! FUSE servers without a kernel mount beside the same server behind the kernel: bindfs as it is,
//! which keeps nothing that it is not told to.

use crate::figure::{Figure, Judged};
use crate::tools::{Place, in_turn, numbers, sh, succeeds};

const GROUP: &str = "bindfs without a kernel mount, by the speed of its kernel mount";
const COLD: &str = "attr_timeout=0,entry_timeout=0";
const WARM: &str = "attr_timeout=60,entry_timeout=60";

/// The server behind the kernel and for a run, with the same options.
struct Both<'a> {
    place: &'a Place,
    options: &'static str,
    /// Before each command.
    before: &'static str,
    target: String,
}

impl<'a> Both<'a> {
    fn new(
        place: &'a Place,
        name: &str,
        options: &'static str,
        before: &'static str,
    ) -> Option<Self> {
        let target = place.path(&format!("hosts-{name}"));
        let source = place.path("hosts-source");
        let mounted = succeeds(&format!(
            "mkdir -p {source} {target} {target}-run && {before} bindfs -o {options} {source} {target}"
        ));
        mounted.then_some(Self {
            place,
            options,
            before,
            target,
        })
    }

    /// Microseconds of `work`, a line for `programs/hosts.c` with DIR for the directory.
    fn measure(&self, rounds: usize, work: &str) -> [f64; 2] {
        let work = format!("{} {work}", self.place.program("hosts"));
        let kernel = format!("{} {}", self.before, work.replace("DIR", &self.target));
        let ours = format!("{} {}", self.before, self.run(&work, ""));
        in_turn(rounds, [&|| numbers(&kernel)[0], &|| numbers(&ours)[0]])
    }

    /// A command that runs `work` on the server for a run; all its messages go to file `log`, if any.
    fn run(&self, work: &str, log: &str) -> String {
        let (culvert, source) = (&self.place.culvert, self.place.path("hosts-source"));
        let target = format!("{}-run", self.target);
        let kind = match log {
            "" => format!("type=fuse.bindfs,{}", self.options),
            log => format!(
                "type=fuse,\"command=bindfs -d -o {} %s %m > {log} 2>&1\"",
                self.options.replace(',', " -o ")
            ),
        };
        format!(
            "{culvert} run --mount '{kind},source={source},target={target}' -- {}",
            work.replace("DIR", &target)
        )
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        let target = &self.target;
        sh(&format!("fusermount3 -u {target} || umount {target}"));
    }
}

/// All of it.
pub fn hosts(place: &Place) -> Vec<Figure> {
    if !succeeds("command -v bindfs && test -w /dev/fuse") {
        eprintln!("not measured: bindfs and /dev/fuse are wanted");
        return Vec::new();
    }
    // Mount, what is done, how it is called, and the part of the kernel mount's speed.
    let rows: [(&str, &str, &str, f64); 9] = [
        ("cold", "fstat DIR 4000", "cold attributes", 5.0),
        ("pinned", "fstat DIR 4000", "the same on one processor", 1.2),
        ("cold", "fstat DIR 4000 4", "the same, four programs", 1.3),
        (
            "cold",
            "make DIR 400",
            "lookup, create, write 4 KiB, close, unlink",
            1.5,
        ),
        ("cold", "read DIR 2", "cold read of 128 KiB", 1.7),
        ("cold", "write DIR 2", "write of 128 KiB", 1.4),
        ("warm", "fstat DIR 20000", "warm attributes", 1.0),
        ("warm", "stat DIR 20000", "warm stat by path", 1.0),
        ("warm", "open DIR 2000", "open, read 4 KiB, close", 1.0),
    ];
    let mounts = [
        ("cold", COLD, ""),
        ("pinned", COLD, "taskset -c 0"),
        ("warm", WARM, ""),
    ];
    let mut figures = Vec::new();
    for (mount, options, before) in mounts {
        let Some(both) = Both::new(place, mount, options, before) else {
            eprintln!("not measured: bindfs does not mount here");
            return figures;
        };
        for (_, work, what, least) in rows.iter().filter(|row| row.0 == mount) {
            let [kernel, ours] = both.measure(7, work);
            figures.push(Figure::new(
                GROUP,
                *what,
                Some(kernel),
                ours,
                "µs",
                Judged::Speed(*least),
            ));
        }
        if mount == "cold" {
            figures.extend(by_the_adapter(&both));
            figures.extend(requests(&both));
            figures.extend(idle(&both));
        }
    }
    figures
}

/// Cold attributes where the server is not intercepted, but has its requests from a process beside it.
fn by_the_adapter(both: &Both<'_>) -> Vec<Figure> {
    let work = format!("{} fstat DIR 4000", both.place.program("hosts"));
    let kernel = work.replace("DIR", &both.target);
    let ours = both
        .run(&work, "")
        .replace("type=fuse.bindfs,", "type=fuse.bindfs,way=adapter,");
    let [kernel, ours] = in_turn(7, [&|| numbers(&kernel)[0], &|| numbers(&ours)[0]]);
    vec![Figure::new(
        GROUP,
        "cold attributes by the adapter",
        Some(kernel),
        ours,
        "µs",
        Judged::Speed(0.75),
    )]
}

/// How many requests the server sees for the same programs, as it says itself.
fn requests(both: &Both<'_>) -> Vec<Figure> {
    let place = both.place;
    let (log, target) = (place.path("hosts-log"), place.path("hosts-counted"));
    let work = "sh -c 'ls -lR DIR && cp DIR/file0 DIR/copied && cat DIR/copied DIR/copied && mv DIR/copied DIR/moved && rm DIR/moved'";
    let counted = |command: &str| {
        sh(&format!("{command} > {log}.out"));
        numbers(&format!("grep -c ' opcode: ' {log}"))[0]
    };
    let ours = counted(&both.run(work, &log));
    let source = place.path("hosts-source");
    sh(&format!(
        "mkdir -p {target}; bindfs -d -o {} {source} {target} > {log} 2>&1 &
         for i in $(seq 100); do mountpoint -q {target} && break; sleep .05; done",
        both.options
    ));
    let kernel = counted(&work.replace("DIR", &target));
    sh(&format!("fusermount3 -u {target} || umount {target}"));
    let what = "requests for ls, cp, cat, mv and rm";
    vec![Figure::new(
        GROUP,
        what,
        Some(kernel),
        ours,
        "",
        Judged::Speed(1.0),
    )]
}

/// How often server and guardian run in three seconds in which nobody asks.
fn idle(both: &Both<'_>) -> Vec<Figure> {
    let source = both.place.path("hosts-source");
    let switches = format!(
        "cat $(for p in $(pgrep culvert-fuse) $(pgrep -f \"^[a-z/]*[b]indfs {source} .*-run\"); do ls /proc/$p/task/*/status; done) | awk \"/ctxt/ {{ n += \\$2 }} END {{ print n }}\""
    );
    let work = format!("sh -c 'stat DIR/file0 > /dev/null; {switches}; sleep 3; {switches}'");
    let found = numbers(&both.run(&work, ""));
    let what = "switches of server and guardian in 3 s without requests";
    vec![Figure::new(
        GROUP,
        what,
        None,
        found[1] - found[0],
        "",
        Judged::Figure(0.0),
    )]
}
