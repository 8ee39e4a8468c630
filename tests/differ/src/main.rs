//! The fuzzer by hand. See `differ help`.

use culvert_differ::{
    Difference, Mount, Place, Program, World, compare, difference, generate, generate_mapped,
    report, smaller, suited, suited_to_disk,
};
use std::collections::HashMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
Usage: differ run [--seed S] [--steps N] [--mapped] [--mount M]... [--disk] [--show]
       differ fuzz [--minutes M] [--seed S] [--steps N] [--mapped] [--mount M]... [--disk]
                   [--programs N] [--into DIRECTORY] [--whole]
       differ replay FILE... [--mount M]... [--disk] [--show]
       differ shrink FILE [--mount M] [--disk]
       differ generate [--seed S] [--steps N] [--mapped]

Runs random programs of file-system calls natively and on a mount, and compares
every result, attribute, listing and content.

  --mapped     programs that mostly map files, store and load
  --mount M    native, passthrough, bound, driven, memory, paged (driven, without
               descriptors), layered, fault, stacked (passthrough below layers), log, bind,
               bind-rules, bind-rates, union, union-spread, archives, kernel and kernel-memory, -bind,
               -bind-mapped, -log, -union, -server, -sdcard (`culvert mount`; with more
               options behind a comma: kernel,extend=metadata), server (bindfs)
               and sdcard, which are compared with the same behind the kernel, at:DIRECTORY
               (what is mounted there; it is emptied), bindfs:OPTIONS and mergerfs:OPTIONS
               (bind and union as kernel mounts, compared with bindfs and mergerfs),
               bindfs-run:OPTIONS and mergerfs-run:OPTIONS (in a run), or type=...,target={mnt} as behind
               `culvert run --mount`; may be repeated
  --disk       directories in $TMPDIR instead of on tmpfs
  --show       show what each step printed
  --into DIR   where shrunk programs go (each kind of failure once)
  --whole      do not shrink, only name the seeds that differ
  --perturb N  falsify the result of step N: the difference must be found

CULVERT_BIN names the command under test, DIFFER_EXECUTOR a built executor.
";

struct Options {
    seed: u64,
    steps: usize,
    minutes: u64,
    programs: usize,
    mounts: Vec<Mount>,
    mapped: bool,
    disk: bool,
    show: bool,
    whole: bool,
    into: PathBuf,
    perturb: Option<usize>,
    files: Vec<PathBuf>,
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        steps: 60,
        minutes: 0,
        programs: usize::MAX,
        mounts: Vec::new(),
        mapped: false,
        disk: false,
        show: false,
        whole: false,
        into: PathBuf::from("."),
        perturb: None,
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        let number = |text: String| {
            text.parse::<u64>()
                .map_err(|_| format!("no number: {text}"))
        };
        match word.as_str() {
            "--seed" => options.seed = number(value()?)?,
            "--steps" => options.steps = number(value()?)? as usize,
            "--minutes" => options.minutes = number(value()?)?,
            "--programs" => options.programs = number(value()?)? as usize,
            "--mount" => options.mounts.push(value()?.parse()?),
            "--mapped" => options.mapped = true,
            "--disk" => options.disk = true,
            "--show" => options.show = true,
            "--whole" => options.whole = true,
            "--into" => options.into = PathBuf::from(value()?),
            "--perturb" => options.perturb = Some(number(value()?)? as usize),
            other if other.starts_with('-') => return Err(format!("unknown option {other}")),
            _ => options.files.push(PathBuf::from(word)),
        }
    }
    if options.mounts.is_empty() {
        options.mounts.push(Mount::Native);
    }
    Ok(options)
}

fn read(file: &Path) -> Result<Program, String> {
    fs::read_to_string(file)
        .map_err(|error| format!("{}: {error}", file.display()))?
        .parse()
        .map_err(|error| format!("{}: {error}", file.display()))
}

impl Options {
    /// The program of `seed` of the kind that was asked for.
    fn program(&self, seed: u64) -> Program {
        let program = match self.mapped {
            true => generate_mapped(seed, self.steps),
            false => generate(seed, self.steps),
        };
        match self.disk {
            true => suited_to_disk(&program),
            false => program,
        }
    }
}

struct Bench {
    world: World,
    perturb: Option<usize>,
}

impl Bench {
    fn difference(&self, program: &Program, mount: &Mount) -> Option<Difference> {
        difference(&self.world, program, mount, self.perturb)
    }

    /// The smallest program found that differs in the same way.
    fn smaller(&self, program: &Program, mount: &Mount, found: &Difference) -> Program {
        smaller(&self.world, program, mount, found, self.perturb)
    }

    fn report(&self, program: &Program, mount: &Mount) -> String {
        let native = self.world.run(program, &mount.reference(), None);
        let ours = self.world.run(program, mount, self.perturb);
        report(program, &native, &ours, mount)
    }
}

/// Random programs until the time is over; each kind of failure is shrunk, shown and kept once.
fn fuzz(bench: &Bench, options: &Options) -> Result<bool, String> {
    let began = Instant::now();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut count = 0;
    let mut seed = options.seed;
    let mut shown = Instant::now();
    fs::create_dir_all(&options.into).map_err(|error| error.to_string())?;
    while count < options.programs
        && (options.minutes == 0 || began.elapsed() < Duration::from_secs(60 * options.minutes))
    {
        let whole = options.program(seed);
        let mut native = bench.world.run(&whole, &Mount::Native, None);
        if native.status != "exit 0" || native.output.contains(" unknown\n") {
            println!("seed {seed} natively: {} {}", native.status, native.errors);
        }
        let mut last = (whole.clone(), Mount::Native);
        for mount in &options.mounts {
            let program = suited(&whole, mount);
            let now = (program.clone(), mount.reference());
            if now != last {
                native = bench.world.run(&program, &now.1, None);
                last = now;
            }
            let ours = bench.world.run(&program, mount, bench.perturb);
            let Some(found) = compare(&program, &native, &ours, mount) else {
                continue;
            };
            let signature = found.signature();
            if options.whole {
                println!("seed {seed}: {signature}");
            }
            let times = seen.entry(signature.clone()).or_default();
            *times += 1;
            if *times > 1 || options.whole {
                continue;
            }
            let mut short = bench.smaller(&program, mount, &found);
            short.comments = vec![format!(
                " {mount:?}, seed {seed}, {} steps: {signature}",
                options.steps
            )];
            let file = options.into.join(format!("seed-{seed}-{}.txt", seen.len()));
            fs::write(&file, short.to_string()).map_err(|error| error.to_string())?;
            println!(
                "\n==== {} ({mount:?}): {signature}\n{}",
                file.display(),
                bench.report(&short, mount)
            );
        }
        count += 1;
        seed += 1;
        if std::io::stderr().is_terminal() && shown.elapsed() > Duration::from_millis(300) {
            shown = Instant::now();
            eprint!(
                "\r{count} programs, seed {seed}, {} kinds of failures, {} s ",
                seen.len(),
                began.elapsed().as_secs()
            );
            let _ = std::io::stderr().flush();
        }
    }
    println!(
        "{count} programs of {} steps in {} s, {} kinds of failures",
        options.steps,
        began.elapsed().as_secs(),
        seen.len()
    );
    let mut kinds: Vec<_> = seen.into_iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.1));
    for (signature, times) in &kinds {
        println!("{times:6}  {signature}");
    }
    Ok(kinds.is_empty())
}

fn replay(bench: &Bench, program: &Program, options: &Options, name: &str) -> bool {
    let mut good = true;
    for mount in &options.mounts {
        let program = &suited(program, mount);
        let found = bench.difference(program, mount);
        good &= found.is_none();
        let verdict = found
            .as_ref()
            .map_or("equal".to_owned(), Difference::signature);
        println!("{name} ({mount:?}): {verdict}");
        if found.is_some() || options.show {
            println!("{}", bench.report(program, mount));
        }
    }
    good
}

fn carry_out() -> Result<bool, String> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let options = options(words)?;
    if command == "generate" {
        print!("{}", options.program(options.seed));
        return Ok(true);
    }
    let place = if options.disk {
        Place::Disk(std::env::temp_dir())
    } else {
        Place::Memory
    };
    let culvert = options
        .mounts
        .iter()
        .any(Mount::is_culverts)
        .then(culvert_differ::built_culvert);
    let world = World::new(place, culvert.as_deref()).map_err(|error| error.to_string())?;
    world.can_bind()?;
    let bench = Bench {
        world,
        perturb: options.perturb,
    };
    match command.as_str() {
        "run" => Ok(replay(
            &bench,
            &options.program(options.seed),
            &options,
            &format!("seed {}", options.seed),
        )),
        "fuzz" => fuzz(&bench, &options),
        "replay" => {
            let mut good = true;
            for file in &options.files {
                good &= replay(&bench, &read(file)?, &options, &file.display().to_string());
            }
            Ok(good)
        }
        "shrink" => {
            let file = options.files.first().ok_or("which file?")?;
            let mount = &options.mounts[0];
            let program = suited(&read(file)?, mount);
            let found = bench
                .difference(&program, mount)
                .ok_or("there is no difference")?;
            let short = bench.smaller(&program, mount, &found);
            print!("{short}\n{}", bench.report(&short, mount));
            Ok(true)
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn main() -> ExitCode {
    match carry_out() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
