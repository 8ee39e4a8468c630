//! What starting programs costs inside a run: single starts, with their page faults and system
//! calls, and work that consists of starts.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, numbers, pair, sh, succeeds};
use crate::writing::{Worker, disk_directory};
use crate::{fixture, linux};
use std::path::Path;

const SINGLE: &str = "starts";
const WORK: &str = "work that starts programs, inside a run with one passthrough mount";
const INSIDE: &str = "inside a run";

/// Natively and inside.
struct Ways {
    native: Way,
    inside: Way,
}

impl Ways {
    /// Both command lines for `words`.
    fn lines(&self, words: &str) -> [String; 2] {
        [&self.native, &self.inside].map(|way| format!("{} {words}", way.before))
    }

    /// Medians of what `words` print in the place `field`, natively and inside, in turn.
    fn pair(&self, rounds: usize, words: &str, field: usize) -> (f64, f64) {
        let [native, inside] = self.lines(words);
        pair(rounds, &|| numbers(&native)[field], &|| {
            numbers(&inside)[field]
        })
    }
}

/// All of it.
pub fn starts(place: &Place) -> Vec<Figure> {
    let worker = Worker::new(&place.path("starts"), 1_000);
    let volume = format!("--no-private -v {0}/source:{0}/target", worker.directory);
    let ways = Ways {
        native: worker.native("native"),
        inside: worker.through(place, INSIDE, &volume),
    };
    if !ways.inside.works() {
        return Vec::new();
    }
    let mut figures = single(place, &ways);
    figures.extend(libraries(place, &ways));
    figures.extend(command(place, &ways));
    figures.extend(interpreters(place, &ways));
    figures.extend(work(place, ways));
    figures.extend(linux::build(place));
    figures
}

/// `/bin/true` and a child that ends at once.
fn single(place: &Place, ways: &Ways) -> Vec<Figure> {
    let starts = place.program("starts");
    let mut figures = Vec::new();
    let by_vfork = |count: u32| format!("{starts} vfork {count} /bin/true");
    let what = "`/bin/true` by vfork and exec";
    let (native, ours) = ways.pair(11, &by_vfork(100), 0);
    figures.push(added(what, native, ours, "µs", 120.0));
    figures.extend(counts(ways, what, &by_vfork, 1.0, Some(25.0)));

    let by_bash = |count: u32| format!("bash {} {count}", bash_loop(place));
    let what = "`/bin/true` by fork and exec, from bash";
    let (native, ours) = ways.pair(11, &by_bash(100), 0);
    figures.push(added(what, native, ours, "µs", 170.0));
    // The faults of all that bash waited for: those of one start are the difference of two runs.
    let under = |count: u32| format!("{starts} vfork 3 /bin/bash {} {count}", bash_loop(place));
    figures.extend(counts(ways, what, &under, 0.0, Some(40.0)));

    let exit = |count: u32| format!("{starts} exit {count}");
    let what = "fork and exit";
    let (native, ours) = ways.pair(11, &exit(300), 0);
    let parents = ways.lines(&exit(51)).map(|line| numbers(&line)[2]);
    let mut note = format!(
        "page faults of the parent afterwards: {} natively, {} inside",
        parents[0], parents[1]
    );
    // Where the kernel puts the child decides more than what it does (docs/performance.md).
    let on_one = "taskset -c 0";
    if succeeds(&format!("{on_one} true")) {
        let (native, ours) = ways.pair(11, &format!("{on_one} {}", exit(300)), 0);
        note += &format!("; parent and child on one processor: {native:.0} and {ours:.0} µs");
    }
    figures.push(added(what, native, ours, "µs", 25.0).note(note));
    figures.extend(counts(ways, what, &exit, 1.0, None));
    figures
}

/// A script that starts `/bin/true` as often as it is told, and prints microseconds for each.
fn bash_loop(place: &Place) -> String {
    let script = place.path("loop.bash");
    if !Path::new(&script).exists() {
        let text = "b=${EPOCHREALTIME/./}\nfor ((i = 0; i < $1; i++)); do /bin/true; done\n\
                    e=${EPOCHREALTIME/./}\necho $(((e - b) / $1))\n";
        std::fs::write(&script, text).expect("the directory is ours");
        sh(&format!("chmod 644 {script}"));
    }
    script
}

/// A figure of which at most `most` may be added.
fn added(what: &str, native: f64, ours: f64, unit: &'static str, most: f64) -> Figure {
    Figure::new(SINGLE, what, Some(native), ours, unit, Judged::Added(most))
}

/// The page faults and system calls of one start, in a pass of their own. `words` for a number of
/// starts print the page faults: of each (`each` is 1), or of all together (0).
fn counts(
    ways: &Ways,
    what: &str,
    words: &dyn Fn(u32) -> String,
    each: f64,
    most: Option<f64>,
) -> Vec<Figure> {
    let faults = |way: usize| match each {
        1.0 => numbers(&ways.lines(&words(51))[way])[1],
        _ => {
            (numbers(&ways.lines(&words(22))[way])[1] - numbers(&ways.lines(&words(2))[way])[1])
                / 20.0
        }
    };
    let judged = most.map_or(Judged::AddedStated, Judged::Added);
    let what_faults = format!("{what}: page faults");
    let mut figures = vec![Figure::new(
        SINGLE,
        what_faults,
        Some(faults(0)),
        faults(1),
        "",
        judged,
    )];
    if succeeds("strace -f -c -o /dev/null true") {
        // What is not the starts' is the same in both runs.
        let calls = |way: usize| {
            let of = |count: u32| system_calls(&ways.lines(&words(count))[way]);
            let starts = if each == 1.0 { 10.0 } else { 40.0 };
            (of(12) - of(2)) / starts
        };
        let what = format!("{what}: system calls");
        let judged = Judged::AddedStated;
        figures.push(Figure::new(
            SINGLE,
            what,
            Some(calls(0)),
            calls(1),
            "",
            judged,
        ));
    }
    figures
}

/// How many system calls a command and its children make.
fn system_calls(line: &str) -> f64 {
    let table = sh(&format!(
        "strace -f -c -U calls,name -o /dev/stderr {line} 2>&1 >/dev/null"
    ));
    let total = table
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_suffix("total"))
        .expect("strace sums up");
    total.trim().parse().expect("a number")
}

/// What each further library of a program adds: one that makes no system calls of its own, and one
/// that has two instructions for them.
fn libraries(place: &Place, ways: &Ways) -> Vec<Figure> {
    const COUNTS: [usize; 3] = [0, 10, 20];
    let starts = place.program("starts");
    let mut figures = Vec::new();
    // On a disk, as libraries are: what is kept of a file is believed only where its time of change
    // is kept, and two seconds after that.
    let Some(disk) = disk_directory(place) else {
        eprintln!("not measured, there is no disk: each further library");
        return figures;
    };
    sh(&format!("mkdir -p {disk}"));
    for (kind, what) in [
        ("plain", "each further library"),
        (
            "sites",
            "each further library with system-call instructions",
        ),
    ] {
        let programs = COUNTS.map(|count| linked(&disk, kind, count));
        std::thread::sleep(std::time::Duration::from_secs(3));
        let mut added = Vec::new();
        for program in programs {
            let (native, ours) = ways.pair(11, &format!("{starts} vfork 50 {program}"), 0);
            added.push((native, ours - native));
        }
        let last = COUNTS.len() - 1;
        let each = |index: usize| (added[index].1 - added[0].1) / COUNTS[index] as f64;
        let native = (added[last].0 - added[0].0) / COUNTS[last] as f64;
        let note = format!(
            "of {} libraries; by the first {}: {:.1} µs; natively a library costs {native:.0} µs",
            COUNTS[last],
            COUNTS[1],
            each(1)
        );
        figures.push(
            Figure::new(SINGLE, what, None, each(last), "µs", Judged::Figure(5.0)).note(note),
        );
    }
    sh(&format!("rm -rf {disk}"));
    figures
}

/// A program in `directory` linked with `count` small libraries.
fn linked(directory: &str, kind: &str, count: usize) -> String {
    let program = format!("{directory}/linked-{kind}-{count}");
    let body = match kind {
        "plain" => "int f_$i(void) { return $i; }",
        // getpid and getuid: instructions in a library, which is all that counts.
        _ => {
            "int f_$i(void) { int n = 0; for (int i = 0; i < 2; i++) { int r; \
             __asm__ volatile(\\\"syscall\\\" : \\\"=a\\\"(r) : \\\"0\\\"(39) \
             : \\\"rcx\\\", \\\"r11\\\", \\\"memory\\\"); n += r; \
             __asm__ volatile(\\\"syscall\\\" : \\\"=a\\\"(r) : \\\"0\\\"(102) \
             : \\\"rcx\\\", \\\"r11\\\", \\\"memory\\\"); n += r; } \
             return n + $i; }"
        }
    };
    sh(&format!(
        "cd {directory} && echo 'int main(void) {{ return 0; }}' > linked.c
         libraries=
         for i in $(seq {count}); do
           if [ ! -e lib{kind}$i.so ]; then
             echo \"{body}\" > small.c && cc -O2 -shared -fPIC -o lib{kind}$i.so small.c
           fi
           libraries=\"$libraries -l{kind}$i\"
         done
         cc -O2 -o {program} linked.c -L. -Wl,-rpath,{directory} -Wl,--no-as-needed $libraries"
    ));
    program
}

/// `/bin/true` under `culvert run` of its own, against `/bin/true`.
fn command(place: &Place, ways: &Ways) -> Vec<Figure> {
    let starts = place.program("starts");
    let outside = &ways.native.before;
    let under = ways.inside.before.trim_start_matches(outside.as_str());
    let native = |count: u32| format!("{outside} {starts} vfork {count} /bin/true");
    // The command is found by its path.
    let ours = |count: u32| format!("{outside} {starts} vfork {count} {under} /bin/true");
    let (quick, slow) = pair(11, &|| numbers(&native(100))[0], &|| numbers(&ours(100))[0]);
    let what = "`/bin/true` under `culvert run`";
    let mut figures = vec![added(what, quick, slow, "µs", 800.0)];
    let [quick, slow] = [native(51), ours(51)].map(|line| numbers(&line)[1]);
    figures.push(Figure::new(
        SINGLE,
        format!("{what}: page faults"),
        Some(quick),
        slow,
        "",
        Judged::AddedStated,
    ));
    if succeeds("strace -f -c -o /dev/null true") {
        let calls = |lines: [String; 2]| {
            let [few, many] = lines.map(|line| system_calls(&line));
            (many - few) / 10.0
        };
        figures.push(Figure::new(
            SINGLE,
            format!("{what}: system calls"),
            Some(calls([native(2), native(12)])),
            calls([ours(2), ours(12)]),
            "",
            Judged::AddedStated,
        ));
    }
    figures
}

/// Interpreters that do nothing.
fn interpreters(place: &Place, ways: &Ways) -> Vec<Figure> {
    let starts = place.program("starts");
    let mut figures = Vec::new();
    for (what, name, arguments, count) in [
        (
            "`/usr/bin/python3 -c pass`",
            "/usr/bin/python3",
            "-c pass",
            10,
        ),
        ("`node -e 0`", "node", "-e 0", 3),
        ("`java -version`", "java", "-version", 3),
    ] {
        let path = sh(&format!("command -v {name} || :"));
        let (path, before) = (path.trim(), &ways.native.before);
        if path.is_empty() || !succeeds(&format!("{before} {path} {arguments}")) {
            eprintln!("not measured, {name} is not installed for every user: {what}");
            continue;
        }
        let line = format!("{starts} vfork {count} {path} {arguments}");
        let (native, ours) = ways.pair(7, &line, 0);
        let counted = ways.lines(&line).map(|line| numbers(&line)[1]);
        figures.push(added(what, native, ours, "µs", 300.0).note(format!(
            "page faults {} natively, {} inside",
            counted[0], counted[1]
        )));
    }
    figures
}

/// Work that starts programs, as a part of the native speed.
fn work(place: &Place, ways: Ways) -> Vec<Figure> {
    let project = fixture::project(place);
    let unpack = format!("tar -xf {project} && cd project");
    let configure = fixture::configure(place);
    let (unpack_configure, configure_name) = match &configure {
        Some((archive, name)) => (
            format!("tar -xf {archive} && cd */"),
            format!("`./configure` of {name} (autotools)"),
        ),
        None => (String::new(), "`./configure` (autotools)".to_owned()),
    };
    let pipeline = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n\
         echo one two $i | tr a-z A-Z | sed s/O/x/ | cut -d ' ' -f 2 | cat >/dev/null\ndone";
    let search = "for i in 1 2 3 4 5; do\nfind . -name '*.c' | xargs -n 100 grep -l f_7_ \
        >/dev/null || :\n\
         grep -rl f_7_ . >/dev/null\ndone";
    let table: [(&str, &str, &str, &str, usize, f64); 5] = [
        (
            "`make` of 40 C files with `cc`",
            &unpack,
            "make -s $(ls d1/*.c | head -n 40 | sed 's/c$/o/')",
            "make",
            7,
            0.96,
        ),
        (
            "20 pipelines of five programs",
            ":",
            pipeline,
            "sed",
            11,
            0.85,
        ),
        (
            &configure_name,
            &unpack_configure,
            "./configure >/dev/null 2>&1",
            "make",
            3,
            0.85,
        ),
        (
            "`find | xargs grep` and `grep -r` of 1,000 files, five times",
            &unpack,
            search,
            "grep",
            11,
            0.9,
        ),
        (
            "`git add` and `git status` of 1,000 files",
            &format!("{unpack}; git init -q ."),
            "git add . && git status >/dev/null",
            "git",
            11,
            0.9,
        ),
    ];
    let ways = [ways.native, ways.inside];
    let mut figures = Vec::new();
    for (what, prepare, work, needs, rounds, least) in table {
        if prepare.is_empty() || !succeeds(&format!("command -v {needs}")) {
            eprintln!("not measured, its source or {needs} is missing: {what}");
            continue;
        }
        let script = place.path("starts.sh");
        let text = format!(
            "set -e\ncd \"$1\"\nmkdir work\ntrap 'cd \"$1\"; rm -rf work' EXIT\ncd \
            work\n{prepare}\nb=$(date +%s%N)\n{work}\ne=$(date +%s%N)\necho time $((e - b))\n"
        );
        std::fs::write(&script, text).expect("the directory is ours");
        sh(&format!("chmod 644 {script}"));
        for row in compare(&ways, "sh", &script, "", rounds) {
            figures.extend(as_parts(&row, what, least));
        }
    }
    figures
}

/// The figures of a row of which the part `least` of the native speed is asked.
fn as_parts(row: &Row, what: &str, least: f64) -> Vec<Figure> {
    row.figures(WORK, what, "ns", |_| Judged::Speed(least))
}
