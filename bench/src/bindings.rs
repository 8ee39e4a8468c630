//! File systems in Java and Python beside the same in C, in the same place, and beside jFUSE,
//! mfusepy and pyfuse3 behind the kernel; and JavaFuse's configurations.

use crate::compare::{Row, Way, compare};
use crate::figure::{Figure, Judged};
use crate::tools::{Place, attempt, median, sh, succeeds};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const WORK: [&str; 5] = ["calls", "postmark", "bonnie", "buffers", "copy"];
/// With little other work; `ROUNDS` in the environment is another number.
const ROUNDS: usize = 3;

const SLOTS: &str = "bindings: null file system in slots, the one in C by";
const KERNEL: &str = "bindings: null file system behind the kernel, the one in C by";
const SLOTS_HOOKS: &str = "bindings: a directory in slots, JavaFuse's model without methods by";
const KERNEL_HOOKS: &str =
    "bindings: a directory behind the kernel, JavaFuse's model without methods by";
const AHEAD: &str = "bindings, ahead of";

const JAVA: &str = "Java";
const PYTHON: &str = "Python";
const JFUSE: &str = "jFUSE";
const MFUSEPY: &str = "mfusepy";
const PYFUSE3: &str = "pyfuse3";
const METADATA: &str = "JavaFuse1, metadata";
const DATA: &str = "JavaFuse2, data";
const MIRROR: &str = "C";

/// 1.05 of the time.
const AS_C: f64 = 0.952;

/// What is built once.
struct Built<'a> {
    place: &'a Place,
    work: String,
}

/// A file system for a way: its column, and the mount's words.
struct Kind {
    column: &'static str,
    /// Type and options, as `--mount` has them.
    mount: String,
}

/// A mount behind the kernel, as long as it lives.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        // jFUSE's virtual machine does not end with its mount.
        sh(&format!(
            "umount -l {0} || fusermount3 -uz {0}; kill $(cat {0}.pid) 2> /dev/null || true",
            self.0
        ));
    }
}

/// All of it.
pub fn bindings(place: &Place) -> Vec<Figure> {
    let built = match built(place) {
        Ok(built) => built,
        Err(failure) => {
            eprintln!("not measured: {failure}");
            return Vec::new();
        }
    };
    let nulls = built.nulls();
    let ways: Vec<Way> = nulls.iter().map(|kind| built.in_slots(kind)).collect();
    let mut figures = judged(SLOTS, built.rows(&ways), &[]);
    {
        let (mut ways, _mounts) = built.behind_the_kernel(&nulls);
        let others: Vec<(Way, Mounted)> = built.others();
        let (more, _others): (Vec<Way>, Vec<Mounted>) = others.into_iter().unzip();
        ways.extend(more);
        let ahead = [(JAVA, &[JFUSE][..]), (PYTHON, &[MFUSEPY, PYFUSE3][..])];
        figures.extend(judged(KERNEL, built.rows(&ways), &ahead));
    }
    let hooks = built.hooks();
    let ways: Vec<Way> = hooks.iter().map(|kind| built.in_slots(kind)).collect();
    figures.extend(judged(SLOTS_HOOKS, built.rows(&ways), &[]));
    let (ways, _mounts) = built.behind_the_kernel(&hooks);
    figures.extend(judged(KERNEL_HOOKS, built.rows(&ways), &[]));
    figures
}

/// Compiles what is compiled, and installs what comes from elsewhere, into the directory.
fn built(place: &Place) -> Result<Built<'_>, String> {
    let into = place.path("");
    let programs = format!("{ROOT}/bench/programs/bindings");
    let include = format!("{ROOT}/crates/culvert-library/include");
    let beside = match std::env::var_os("CULVERT_BIN") {
        Some(named) => named.into(),
        None => std::env::current_exe().expect("a name"),
    };
    let library = beside.with_file_name("libculvert_fuse.so");
    attempt(&format!(
        "set -e; cp {} {into}; said=$({ROOT}/scripts/bindings {into} 2>&1)
         jdk=$(echo \"$said\" | sed -n 's/^Java:.*, by //p'); test -n \"$jdk\"; ln -sfn $jdk \
         {into}jdk
         cc -O2 -shared -fPIC -I {include} -o {into}null.so {programs}/null.c
         cc -O2 -shared -fPIC -I {include} -o {into}mirror.so {ROOT}/examples/c/mirror.c
         mkdir -p {into}classes {into}source {into}target {into}mounts
         $jdk/bin/javac -cp {into}culvert.jar -d {into}classes {programs}/Null.java \
         {programs}/Hooks.java
         cp {programs}/*.py {into}
         printf 'CLASSNAME Hooks\\nPRE_CALL 0\\nPOST_CALL 0\\n' > {into}none.conf
         printf 'CLASSNAME Hooks\\nMETA_DATA_ONLY 1\\n' > {into}metadata.conf
         printf 'CLASSNAME Hooks\\nMETA_DATA_ONLY 0\\n' > {into}data.conf
         chmod -R go-w {into}",
        library.display()
    ))?;
    Ok(Built {
        work: place.program("bindings"),
        place,
    })
}

impl Built<'_> {
    /// The null file system in each language, the one in C first.
    fn nulls(&self) -> Vec<Kind> {
        let into = self.place.path("");
        let kind = |column, mount: String| Kind { column, mount };
        vec![
            kind("C", format!("type={into}null.so")),
            kind(
                JAVA,
                format!("type=java,class=Null,classpath={into}classes"),
            ),
            kind(PYTHON, format!("type=python,class={into}null.py:Null")),
        ]
    }

    /// JavaFuse's configurations on a directory, the one without methods first.
    fn hooks(&self) -> Vec<Kind> {
        let into = self.place.path("");
        let java = |column, name: &str| Kind {
            column,
            mount: format!(
                "type=java,config={into}{name}.conf,classpath={into}classes,source={into}source"
            ),
        };
        vec![
            java("none", "none"),
            java(METADATA, "metadata"),
            java(DATA, "data"),
            Kind {
                column: MIRROR,
                mount: format!("type={into}mirror.so,source={into}source"),
            },
        ]
    }

    fn in_slots(&self, kind: &Kind) -> Way {
        let target = self.place.path("target");
        Way {
            column: kind.column,
            before: format!(
                "{} run --mount {},target={target} --",
                self.place.culvert, kind.mount
            ),
            directory: target,
        }
    }

    /// Each at a target of its own.
    fn behind_the_kernel(&self, kinds: &[Kind]) -> (Vec<Way>, Vec<Mounted>) {
        let mount = |kind: &Kind| {
            let (mut source, mut words, mut name) = ("none", Vec::new(), "");
            for word in kind.mount.split(',') {
                match word.split_once('=') {
                    Some(("type", value)) => name = value,
                    Some(("source", value)) => source = value,
                    _ => words.push(word),
                }
            }
            let options = match words.is_empty() {
                true => String::new(),
                false => format!("-o {}", words.join(",")),
            };
            let culvert = &self.place.culvert;
            self.mounted(
                kind.column,
                &format!("{culvert} mount -t {name} {options} {source} TARGET"),
            )
        };
        kinds.iter().filter_map(mount).unzip()
    }

    /// What `command` mounts at TARGET, in the background or not.
    fn mounted(&self, column: &'static str, command: &str) -> Option<(Way, Mounted)> {
        let target = self
            .place
            .path(&format!("mounts/{}", column.replace([' ', ','], "")));
        let command = command.replace("TARGET", &target);
        let mounts = format!(
            "mkdir -p {target} && {{ {command} > {target}.log 2>&1 & echo $! > {target}.pid; }}
             for i in $(seq 200); do mountpoint -q {target} && exit 0; sleep .05; done; exit 1"
        );
        if !succeeds(&mounts) {
            eprintln!("not measured, does not work here: {command}");
            return None;
        }
        let way = Way {
            column,
            before: String::new(),
            directory: target.clone(),
        };
        Some((way, Mounted(target)))
    }

    /// The null file system by jFUSE, mfusepy and pyfuse3, where they can be had.
    fn others(&self) -> Vec<(Way, Mounted)> {
        let into = self.place.path("");
        let programs = format!("{ROOT}/bench/programs/bindings");
        let got = attempt(&format!(
            "set -e; mkdir -p {into}jfuse; cp {programs}/jfuse.xml {into}jfuse/pom.xml
             cd {into}jfuse; mvn -q dependency:copy-dependencies -DoutputDirectory={into}jfuse/jars
             {into}jdk/bin/javac -cp '{into}jfuse/jars/*' -d {into}jfuse {programs}/JFuseNull.java"
        ));
        let venv = attempt(&format!(
            "/usr/bin/python3 -m venv {into}venv && {into}venv/bin/pip -q install mfusepy==3.1.1"
        ));
        for failure in [got, venv].into_iter().filter_map(Result::err) {
            eprintln!("{failure}");
        }
        let commands = [
            (
                JFUSE,
                format!(
                    "{into}jdk/bin/java --enable-native-access=ALL-UNNAMED \
                    -Djava.library.path=$(dirname $(ls /usr/lib/*/libfuse3.so)) \
                     -cp '{into}jfuse:{into}jfuse/jars/*' JFuseNull TARGET"
                ),
            ),
            (
                MFUSEPY,
                format!("{into}venv/bin/python {into}null_mfusepy.py TARGET"),
            ),
            (
                PYFUSE3,
                format!("/usr/bin/python3 {into}null_pyfuse3.py TARGET"),
            ),
        ];
        let mounted = |(column, command): &(&'static str, String)| self.mounted(column, command);
        commands.iter().filter_map(mounted).collect()
    }

    /// All work, in every way in turn.
    fn rows(&self, ways: &[Way]) -> Vec<Row> {
        let rounds = std::env::var("ROUNDS")
            .ok()
            .and_then(|text| text.parse().ok());
        let rounds = rounds.unwrap_or(ROUNDS);
        let works = WORK.iter().filter(|work| match std::env::var("WORK") {
            Ok(only) => only.split(',').any(|one| one == **work),
            Err(_) => true,
        });
        works
            .flat_map(|work| compare(ways, &self.work, work, "", rounds))
            .collect()
    }
}

/// The figures of `rows`: Java against C, and in lines of their own each of `ahead` against others.
fn judged(
    group: &'static str,
    rows: Vec<Row>,
    ahead: &[(&'static str, &[&'static str])],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for row in rows {
        figures.extend(row.figures(group, &row.name, "µs", |column| match column {
            JAVA => Judged::Speed(AS_C),
            _ => Judged::SpeedStated,
        }));
        let taken = |wanted: &str| {
            let found = row.others.iter().find(|(column, _)| *column == wanted);
            found.map(|(_, values)| median(values.clone()))
        };
        for (ours, theirs) in ahead {
            let beside: Vec<(String, f64)> = theirs
                .iter()
                .filter_map(|other| Some(((*other).to_owned(), taken(other)?)))
                .collect();
            let Some(time) = taken(ours) else { continue };
            let what = format!("{ours}, behind the kernel: {}", row.name);
            let figure = Figure::new(AHEAD, what, None, time, "µs", Judged::Ahead);
            figures.push(figure.beside(beside));
        }
    }
    figures
}
