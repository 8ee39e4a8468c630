//! The layer `log`: what is in a log, in both formats, of runs and kernel mounts, beside LoggedFS
//! itself; what happens when it cannot be written.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Finished, installed, not_tested, run, world};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Directories for one test: the mount's source and target.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let base = world().claim("logs", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        Self { base }
    }

    fn text(&self, name: &str) -> String {
        self.base.join(name).display().to_string()
    }

    /// Runs `script` with the source at the target, under a log with `options`.
    fn run(&self, options: &str, script: &str) -> Finished {
        let mount = format!(
            "type=passthrough,source={},target={},layer=log,log.file={}{options}",
            self.text("source"),
            self.text("target"),
            self.text("log"),
        );
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", script])
    }

    /// The log, when nobody writes to it any more.
    fn log(&self) -> String {
        let log = self.text("log");
        let waited = shell(&format!("flock {log} true"));
        assert_eq!(waited.status, "exit 0", "{}", waited.report());
        fs::read_to_string(&log).expect("a log is UTF-8")
    }
}

/// The value of a member of a JSON line, without quotes.
fn member<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let rest = line.split_once(&format!("\"{name}\":"))?.1;
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}

#[test]
fn each_operation_is_in_the_log() {
    let place = Place::new("operations");
    let target = place.text("target");
    let done = place.run("", &script!("logs/operations.sh", target));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let log = place.log();
    let has = |op: &str, path: &str, program: &str, more: &[(&str, &str)]| {
        let found = log.lines().any(|line| {
            let program = member(line, "program").is_some_and(|name| name.ends_with(program));
            member(line, "op") == Some(op)
                && member(line, "path") == Some(path)
                && program
                && more
                    .iter()
                    .all(|(name, value)| member(line, name) == Some(value))
        });
        assert!(
            found,
            "no {op} of {path} by {program} with {more:?} in\n{log}"
        );
    };
    has("create", "made", "bash", &[]);
    has("read_at", "made", "cat", &[("offset", "0"), ("bytes", "4")]);
    // By a child of fork, and by another program with the same description.
    has("append", "made", "bash", &[("offset", "4"), ("bytes", "4")]);
    has("append", "made", "echo", &[("offset", "8"), ("bytes", "6")]);
    has("link", "linked", "ln", &[("to", "made")]);
    has("rename", "linked", "mv", &[("to", "directory/moved")]);
    has("symlink", "symbolic", "ln", &[("to", "made")]);
    has("set_attributes", "made", "chmod", &[("mode", "416")]);
    has(
        "set_attributes",
        "made",
        "chown",
        &[("uid_to", "1"), ("gid_to", "2")],
    );
    has("mknod", "fifo", "mkfifo", &[]);
    has("lookup", "missing", "cat", &[("error", "2")]);
    has("create", "two\\u000alines", "bash", &[]);
    has("unlink", "directory/moved", "rm", &[]);
    has("write_at", "made", "python3", &[("offset", "3221225472")]);
    has("sync", "made", "python3", &[]);
    has("release", "made", "python3", &[]);
    for line in log.lines() {
        assert!(member(line, "pid") != Some("0"), "nobody's: {line}");
        let known = member(line, "path").is_some_and(|path| !path.starts_with('?'));
        assert!(known, "no path: {line}");
    }
}

/// Actions on names and attributes, with their results, in order of the text: where LoggedFS and
/// Culvert see the same. Opens, reads and looks differ: the kernel asks before each change.
fn told(log: &str, target: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    let changes = [
        "mknod",
        "mkfifo",
        "mkdir",
        "symlink",
        "hard link",
        "rename",
        "chmod",
        "chown",
        "truncate",
        "unlink",
        "rmdir",
        "readlink",
        "write ",
        "fsync",
    ];
    for line in log.lines() {
        let Some((_, text)) = line.split_once("[default] ") else {
            continue;
        };
        let Some((text, end)) = text.split_once(" [ pid = ") else {
            continue;
        };
        if changes.iter().any(|change| text.starts_with(change)) {
            let uid = end.rsplit_once("uid = ").expect("each line has a user").1;
            let text = format!("{} uid {uid}", text.replace(target, "TARGET"));
            *all.entry(text).or_default() += 1;
        }
    }
    all
}

/// What LoggedFS and Culvert tell of the shell script that `work` makes of the directory that it
/// works in: the latter's is the same.
fn told_by_both(name: &str, work: impl Fn(&str) -> String) {
    if !possible() {
        return;
    }
    if !installed("loggedfs") {
        return not_tested("loggedfs is not installed");
    }
    let place = Place::new(name);
    let base = place.text("");
    let base = base.trim_end_matches('/');
    let target = place.text("original");
    let script = place.base.join("script");
    fs::write(&script, work(&target)).expect("the base directory is ours");
    let script = script.display();
    let done = shell(&script!("logs/loggedfs.sh", base, script));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let original = fs::read(place.base.join("original.log")).expect("loggedfs has written");
    // It cuts an offset by %d, and a line at a name's newline.
    let original = String::from_utf8_lossy(&original)
        .replace("two\nlines", "two\\nlines")
        .replace("offset -1073741824", "offset 3221225472");
    let want = told(&original, &target);
    assert!(!want.is_empty(), "{original}");
    let target = place.text("target");
    let done = place.run(",log.format=loggedfs", &work(&target));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let have = told(&place.log(), &target);
    let beside = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
        let differs = |line: &(&String, &usize)| other.get(line.0) != Some(line.1);
        let all = one.iter().filter(differs);
        all.map(|(line, count)| format!("{count} {line}\n"))
            .collect::<String>()
    };
    assert!(
        have == want,
        "{name}: LoggedFS alone says\n{}and Culvert alone\n{}",
        beside(&want, &have),
        beside(&have, &want)
    );
}

#[test]
fn lines_are_those_of_loggedfs() {
    told_by_both("loggedfs", |target| script!("logs/operations.sh", target));
}

#[test]
fn lines_of_random_operations_are_those_of_loggedfs() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/log_random.py");
    for seed in [1, 2, 3] {
        told_by_both(&format!("random-{seed}"), |target| {
            format!("python3 {program} {target} {seed}")
        });
    }
}

/// When it began, in UTC, or had ended, in local time, as LoggedFS has it.
#[test]
fn lines_say_when() {
    for (format, zone, date) in [
        ("json", "UTC", "%Y-%m-%dT%H:%M:%S.%NZ"),
        ("loggedfs", "ZZZ-5:45", "%Y-%m-%d %H:%M:%S,%3N"),
    ] {
        let place = Place::new(&format!("when-{format}"));
        let (culvert, base) = (world().culvert.display(), place.text(""));
        let done = shell(&script!("logs/when.sh", culvert, base, format, zone, date));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let log = place.log();
        let line = log.lines().find(|line| line.contains("mkdir"));
        let line = line.unwrap_or_else(|| panic!("no mkdir in\n{log}"));
        let text = done.text();
        let [before, after] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{}", done.report())
        };
        let moment = member(line, "time").unwrap_or(&line[..line.len().min(before.len())]);
        assert!(
            before <= moment && moment <= after,
            "{before} {moment} {after}"
        );
        if let Some(took) = member(line, "us") {
            let took: f64 = took.parse().expect("a number");
            assert!(took > 0.0 && took < 60e6, "{line}");
        }
    }
}

#[test]
fn a_configuration_chooses() {
    let place = Place::new("configuration");
    let config = place.base.join("config.xml");
    fs::write(&config, script!("logs/config.xml")).expect("the base directory is ours");
    let options = format!(",log.format=loggedfs,log.config={}", config.display());
    let target = place.text("target");
    let done = place.run(
        &options,
        &format!("cd {target}; echo a > f; echo b > f.bak; cat f f.bak g; mkdir d; rm f"),
    );
    assert_eq!(done.text(), "a\nb\n", "{}", done.report());
    let lines: Vec<String> = place
        .log()
        .lines()
        .map(|line| {
            let text = line.split_once("[default] ").expect("a line has a level").1;
            let (text, end) = text.split_once(" [ pid = ").expect("a line has a process");
            // The program is not named: two spaces.
            assert!(end.contains("  uid = "), "{line}");
            text.replace(&target, "")
        })
        .collect();
    assert_eq!(lines, ["mkdir /d 755 {SUCCESS}", "unlink /f {SUCCESS}"]);
}

#[test]
fn a_kernel_mount_has_a_log() {
    if !possible() {
        return;
    }
    let log = world().path("kernel-mount.log");
    let options = format!("layer=log,log.file={}", log.display());
    let mount = Mounted::new("log", &["-o", &options]);
    let target = mount.text("target");
    let script = format!("cd {target}; echo a > f; cat f; mv f g; true");
    let done = shell(&script);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    drop(mount);
    let waited = shell(&format!("flock {} true", log.display()));
    assert_eq!(waited.status, "exit 0", "{}", waited.report());
    let log = fs::read_to_string(&log).expect("a log is UTF-8");
    for (op, path, program) in [
        ("create", "f", "bash"),
        ("rename", "f", "mv"),
        ("flush", "f", "cat"),
    ] {
        let found = log.lines().any(|line| {
            let program = member(line, "program").is_some_and(|name| name.ends_with(program));
            program && member(line, "op") == Some(op) && member(line, "path") == Some(path)
        });
        assert!(found, "no {op} of {path} by {program} in\n{log}");
    }
}

/// The writer of the log is stopped meanwhile: the program goes on, and what did not fit is
/// counted.
#[test]
fn a_program_does_not_wait_for_its_log() {
    let place = Place::new("stopped");
    let (target, log) = (place.text("target"), place.text("log"));
    let done = place.run("", &script!("logs/stopped.sh", target, log));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let text = place.log();
    let logged = text
        .lines()
        .filter(|line| member(line, "op") == Some("mkdir"))
        .count();
    let number = |line: &str| member(line, "dropped").and_then(|text| text.parse::<usize>().ok());
    let dropped: usize = text.lines().filter_map(number).sum();
    assert!(dropped > 0, "everything fitted: {logged}");
    // Each directory is looked up, made and removed.
    assert!(
        logged < 6_000 && logged + dropped >= 6_000,
        "{logged} and {dropped}"
    );
    let last = text
        .lines()
        .rev()
        .find(|line| member(line, "op") == Some("mkdir"));
    assert_eq!(last.and_then(|line| member(line, "path")), Some("last"));
    let summary = culvert(&["log", &log]);
    assert!(
        summary.text().contains("operations are missing"),
        "{}",
        summary.report()
    );
    let followed = culvert(&["log", "-f", &log]);
    assert!(
        followed.text().contains("\"dropped\":"),
        "{}",
        followed.report()
    );
}

#[test]
fn a_log_is_summed_up() {
    let place = Place::new("summary");
    let target = place.text("target");
    let done = place.run(
        "",
        &format!("cd {target}; head -c 100000 /dev/zero > f; cat f > /dev/null"),
    );
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let (log, plot) = (place.text("log"), place.text("plot.svg"));
    let summary = culvert(&["log", "--plot", &plot, &log]);
    assert_eq!(summary.status, "exit 0", "{}", summary.report());
    let text = summary.text();
    let bytes = text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], ["100000", "100000", _, "f"])
    });
    assert!(bytes, "{text}");
    let plot = fs::read_to_string(plot).expect("the plot is there");
    assert!(plot.starts_with("<svg"), "{plot}");
    let followed = culvert(&["log", "-f", &log]);
    assert_eq!(followed.text(), place.log());
}

/// A process, killed when dropped.
struct Running(Child);

impl Running {
    fn new(words: &[&str], out: Stdio) -> Self {
        let mut command = Command::new(&world().culvert);
        command.args(words).env("HOME", world().path("home"));
        let child = command.stdin(Stdio::null()).stdout(out).spawn();
        Self(child.expect("the command can be executed"))
    }

    /// The signal that has ended it; none: it has ended by itself.
    fn end(&mut self) -> Option<i32> {
        self.0.wait().expect("it is our child").signal()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `path` holds `text`, sooner or later.
fn comes(path: &str, text: &str) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if fs::read_to_string(path).is_ok_and(|all| all.contains(text)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_log_is_followed_while_it_is_written() {
    let place = Place::new("followed");
    let (target, log, go) = (place.text("target"), place.text("log"), place.text("go"));
    assert_eq!(shell(&format!("mkfifo {go}")).status, "exit 0");
    let mount = format!(
        "type=passthrough,source={},target={target},layer=log,log.file={log}",
        place.text("source")
    );
    let script = format!("mkdir {target}/first; read line < {go}; mkdir {target}/second");
    let words = ["run", "--mount", &mount, "--", "bash", "-c", &script];
    let mut program = Running::new(&words, Stdio::null());
    assert!(comes(&log, "first"), "nothing is logged");
    let outs = ["all", "terminated", "interrupted"].map(|name| place.text(name));
    let mut followers = outs.each_ref().map(|out| {
        let file = fs::File::create(out).expect("the base directory is ours");
        Running::new(&["log", "-f", &log], file.into())
    });
    for out in &outs {
        assert!(comes(out, "first"), "{out}: nothing of a living program");
    }
    for (at, name, signal) in [(1, "TERM", 15), (2, "INT", 2)] {
        let killed = shell(&format!("kill -{name} {}", followers[at].0.id()));
        assert_eq!(killed.status, "exit 0", "{}", killed.report());
        assert_eq!(followers[at].end(), Some(signal), "{name}");
    }
    let gone = shell(&format!("echo on > {go}"));
    assert_eq!(gone.status, "exit 0", "{}", gone.report());
    assert_eq!(program.end(), None);
    // It ends with the log, and has all of it.
    assert_eq!(followers[0].end(), None);
    let all = fs::read_to_string(&outs[0]).expect("lines are UTF-8");
    assert_eq!(all, place.log());
    assert!(all.contains("second"), "{all}");
}

#[test]
fn what_cannot_be_logged_is_refused_before_the_program_starts() {
    let place = Place::new("refused");
    let config = place.base.join("bad.xml");
    fs::write(&config, "<loggedFS").expect("the base directory is ours");
    let mount = |options: &str, want: &str| {
        let mount = format!(
            "type=passthrough,source={},target={},layer=log{options}",
            place.text("source"),
            place.text("target")
        );
        let done = culvert(&[
            "run",
            "--mount",
            &mount,
            "--",
            "touch",
            &place.text("target/ran"),
        ]);
        assert_eq!(done.status, "exit 125", "{options}: {}", done.report());
        assert!(done.errors().contains(want), "{options}: {}", done.report());
        assert!(
            !Path::new(&place.text("source/ran")).exists(),
            "{options}: it ran"
        );
    };
    mount("", "layer log needs log.file=FILE");
    mount(",log.file=relative", "an absolute path is needed");
    mount(
        ",log.file=/no/such/directory/log",
        "/no/such/directory/log: No such file",
    );
    mount(",log.file=/dev/null", "/dev/null: no regular file");
    mount(
        ",log.file=/tmp/l,log.format=x",
        "json or loggedfs is needed",
    );
    mount(
        ",log.file=/tmp/l,log.pipe=/tmp/p",
        "it is made for each run",
    );
    let bad = format!(
        ",log.file={},log.config={}",
        place.text("log"),
        config.display()
    );
    mount(&bad, "bad.xml: the document does not have a root node");
}

/// The output of a run ends with its programs, not with the writer of the log.
#[test]
fn nobody_waits_for_the_writer_of_a_log() {
    let place = Place::new("pipe");
    let mut command = Command::new("bash");
    let script = format!(
        "{} run --mount type=passthrough,source={},target={},layer=log,log.file={} -- \
         sh -c 'sleep 4 <&- >&- 2>&- & echo done' | cat",
        world().culvert.display(),
        place.text("source"),
        place.text("target"),
        place.text("log")
    );
    command.args(["-c", &script]);
    let began = std::time::Instant::now();
    let done = run(command, &[]);
    assert_eq!(done.text(), "done\n", "{}", done.report());
    assert!(began.elapsed().as_secs() < 4, "{:?}", began.elapsed());
}
