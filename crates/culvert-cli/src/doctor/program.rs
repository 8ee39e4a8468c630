//! How a program and each of its libraries would be intercepted, told from their files.

use super::{advice, json::Value, libraries::Search};
use crate::{
    elf::Elf,
    failure::{Failure, reason, shown},
    program,
    verdict::{self, Kind},
};
use culvert_intercept::{
    analysis::{self, Analysis},
    sites,
};
use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

/// Names of the ways in which a site is rewritten, as `culvert_intercept::sites::Kind` orders them.
const WAYS: [(sites::Kind, &str); 6] = [
    (sites::Kind::Mov, "mov"),
    (sites::Kind::Before, "before"),
    (sites::Kind::Next, "next"),
    (sites::Kind::Around, "around"),
    (sites::Kind::Island, "island"),
    (sites::Kind::Trap, "trap"),
];

/// The most addresses of hard sites that are listed for one object.
const ADDRESSES_SHOWN: usize = 8;

/// A program and what belongs to it.
pub struct Program {
    /// The file that the command names.
    pub file: PathBuf,
    /// The program that really runs: for a script its interpreter.
    pub runs: PathBuf,
    /// Why it is not intercepted, if it is not.
    pub refusal: Option<String>,
    /// What to do about that.
    pub remedy: &'static str,
    /// How libculvert.so comes into it.
    pub way_in: &'static str,
    /// The program and its libraries, in the order in which they are found.
    pub objects: Vec<Object>,
    /// Libraries that the loader will not find.
    pub missing: Vec<String>,
    /// What else becomes of the mounts there, and what to do about it.
    pub advice: Vec<String>,
}

/// One file that is mapped executable.
pub struct Object {
    file: PathBuf,
    analysis: Result<Analysis, String>,
    /// It can make rings of io_uring(7).
    makes_rings: bool,
}

/// Examines the program that `name` means.
pub fn examine(name: &OsStr) -> Result<Program, Failure> {
    let file = program::find(name)?;
    let mut report = Program {
        runs: file.clone(),
        file,
        refusal: None,
        remedy: "",
        way_in: "",
        objects: Vec::new(),
        missing: Vec::new(),
        advice: Vec::new(),
    };
    let started = advice::started_by_env(&report.file).unwrap_or_else(|| report.file.clone());
    match verdict::of_program(&started) {
        Ok((runs, kind)) => {
            report.way_in = match kind {
                Kind::Preloaded => "LD_PRELOAD, after the libraries that it needs are open",
                _ => "LD_AUDIT, before any library is opened",
            };
            report.collect(&runs);
            report.runs = runs;
        }
        Err(refusal) => {
            report.objects.push(Object::read(&refusal.file));
            report.refusal = Some(refusal.message());
            report.remedy = refusal.remedy;
        }
    }
    let rings = report.objects.iter().any(|object| object.makes_rings);
    report.advice = advice::of(&report.file, &report.runs, rings);
    Ok(report)
}

impl Program {
    /// Adds the program `runs`, all libraries that it needs, breadth first as ld.so maps them, and
    /// its loader.
    fn collect(&mut self, runs: &Path) {
        let mut queue = vec![runs.to_path_buf()];
        let mut search = None;
        let mut loader = None;
        let mut at = 0;
        while at < queue.len() {
            let file = queue[at].clone();
            at += 1;
            let (object, elf) = Object::with_headers(&file);
            self.objects.push(object);
            let Some(elf) = elf else { continue };
            if let Some(name) = &elf.interpreter {
                loader = Some(crate::failure::path(name).to_owned());
            }
            let search = search.get_or_insert_with(|| Search::new(&elf, &file));
            for name in &elf.needed {
                match search.find(name, &elf, &file) {
                    Some(found) => {
                        let same = |other: &PathBuf| other.file_name() == found.file_name();
                        if !queue.iter().any(same) && !loader.as_ref().is_some_and(same) {
                            queue.push(found);
                        }
                    }
                    None => self.missing.push(shown(crate::failure::path(name))),
                }
            }
        }
        self.objects
            .extend(loader.map(|loader| Object::read(&loader)));
    }

    /// All of the report.
    pub fn to_json(&self) -> Value {
        let mut members = vec![
            ("file", shown(&self.file).into()),
            ("runs", shown(&self.runs).into()),
            ("intercepted", self.refusal.is_none().into()),
            ("way_in", self.way_in.into()),
            (
                "objects",
                Value::List(self.objects.iter().map(Object::to_json).collect()),
            ),
            (
                "missing",
                Value::List(
                    self.missing
                        .iter()
                        .map(|name| name.as_str().into())
                        .collect(),
                ),
            ),
        ];
        let advice = self.advice.iter().map(|text| text.as_str().into());
        members.push(("advice", Value::List(advice.collect())));
        if let Some(why) = &self.refusal {
            members.push(("reason", why.as_str().into()));
            members.push(("remedy", self.remedy.into()));
        }
        Value::Object(members)
    }
}

impl Object {
    fn read(file: &Path) -> Self {
        Self::with_headers(file).0
    }

    fn with_headers(file: &Path) -> (Self, Option<Elf>) {
        let object = |analysis: Result<Analysis, String>, makes_rings| Self {
            file: file.to_path_buf(),
            makes_rings,
            analysis,
        };
        match std::fs::read(file) {
            Err(error) => (
                object(Err(format!("cannot be read ({})", reason(&error))), false),
                None,
            ),
            Ok(bytes) => {
                let elf = Elf::read(&bytes);
                let analysis = analysis::file(&bytes).map_err(String::from);
                let rings = advice::makes_rings(&bytes, analysis.as_ref().ok());
                (object(analysis, rings), elf.ok())
            }
        }
    }

    /// Addresses of the sites that only a trap can intercept.
    fn hard(&self) -> Vec<u64> {
        let sites = self.analysis.iter().flat_map(|analysis| &analysis.sites);
        sites
            .filter(|site| site.kind == sites::Kind::Trap)
            .map(|site| site.address)
            .collect()
    }

    fn to_json(&self) -> Value {
        let mut members = vec![("file", Value::from(shown(&self.file)))];
        match &self.analysis {
            Err(why) => members.push(("error", why.as_str().into())),
            Ok(analysis) => {
                members.push(("sites", analysis.sites.len().into()));
                members.extend(WAYS.map(|(kind, name)| (name, analysis.count(kind).into())));
                members.push(("variable_numbers", analysis.variable_numbers().into()));
                members.push(("functions", analysis.functions.into()));
                members.push(("unknown_pairs", analysis.unknown.into()));
                let hard = self
                    .hard()
                    .iter()
                    .map(|address| Value::from(format!("{address:#x}")))
                    .collect();
                members.push(("hard", Value::List(hard)));
            }
        }
        Value::Object(members)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", shown(&self.file))?;
        if self.runs != self.file {
            writeln!(f, "  is a script, run by {}", shown(&self.runs))?;
        }
        match &self.refusal {
            Some(why) => writeln!(f, "  {why}\n  {}", self.remedy)?,
            None => writeln!(
                f,
                "  is intercepted; libculvert.so comes in by {}",
                self.way_in
            )?,
        }
        for line in &self.advice {
            writeln!(f, "  {line}")?;
        }
        writeln!(f)?;
        self.table(f)?;
        self.notes(f)
    }
}

impl Program {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .objects
            .iter()
            .map(|object| shown(&object.file).chars().count())
            .max()
            .unwrap_or(0);
        write!(f, "  {:<width$} {:>6}", "object", "sites")?;
        for (_, name) in WAYS {
            write!(f, " {name:>6}")?;
        }
        writeln!(f)?;
        for object in &self.objects {
            write!(f, "  {:<width$}", shown(&object.file))?;
            match &object.analysis {
                Err(why) => writeln!(f, "  not patched: {why}")?,
                Ok(analysis) => {
                    write!(f, " {:>6}", analysis.sites.len())?;
                    for (kind, _) in WAYS {
                        match analysis.count(kind) {
                            0 => write!(f, " {:>6}", "-")?,
                            count => write!(f, " {count:>6}")?,
                        }
                    }
                    writeln!(f)?;
                }
            }
        }
        Ok(())
    }

    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        if self.refusal.is_none() {
            writeln!(
                f,
                "  sites are system-call instructions; each that matters is rewritten when its \
                object is mapped, also of what"
            )?;
            writeln!(
                f,
                "  is opened later (dlopen). mov: `mov number; syscall`, only the mov changes. \
                before, next, around: the"
            )?;
            writeln!(
                f,
                "  instructions there move along. island: by way of unused bytes nearby. trap: by \
                SIGILL, about 2 us a call."
            )?;
        }
        for object in &self.objects {
            let hard = object.hard();
            if !hard.is_empty() {
                let list: Vec<String> = hard
                    .iter()
                    .take(ADDRESSES_SHOWN)
                    .map(|address| format!("{address:#x}"))
                    .collect();
                let more = if hard.len() > ADDRESSES_SHOWN {
                    ", ..."
                } else {
                    ""
                };
                writeln!(
                    f,
                    "  hard sites of {}: {}{more}",
                    shown(&object.file),
                    list.join(", ")
                )?;
            }
            if let Ok(analysis) = &object.analysis
                && analysis.unknown > 0
            {
                writeln!(
                    f,
                    "  {}: {} byte pairs 0f 05 in no known function; if one is a system call, it \
                    is not seen",
                    shown(&object.file),
                    analysis.unknown
                )?;
            }
        }
        for name in &self.missing {
            writeln!(f, "  library {name}: not found, as by the loader itself")?;
        }
        Ok(())
    }
}
