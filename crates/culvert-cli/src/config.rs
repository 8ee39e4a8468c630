//! What compilers and linkers are told so that sources for libfuse find its interface here.

use crate::failure::{Failure, shown};
use crate::own_path::own_path;
use std::path::{Path, PathBuf};

/// The library that has the interface.
const LIBRARY: &str = "libculvert_fuse.so";
/// What each file of pkg-config(1) says: its name, what it describes, and the version that sources
/// ask for.
const PACKAGES: [(&str, &str, &str); 3] = [
    ("culvert", "libfuse's interface, by Culvert", "3.14.0"),
    (
        "fuse",
        "libfuse's interface of version 2, by Culvert",
        "2.9.9",
    ),
    (
        "fuse3",
        "libfuse's interface of version 3, by Culvert",
        "3.14.0",
    ),
];

/// `culvert config`.
#[derive(Debug, Default)]
pub struct Config {
    /// Say what the compiler is told.
    pub cflags: bool,
    /// Say what the linker is told.
    pub libs: bool,
    /// Say what this package's file of pkg-config(1) says.
    pub pkg_config: Option<String>,
}

/// The library, beside the command or in ../lib/culvert from there.
pub fn library() -> Result<PathBuf, Failure> {
    beside(LIBRARY, "install it by scripts/install")
}

/// The library `name`, beside the command or in ../lib/culvert from there; `advice` where it is
/// missing.
pub fn beside(name: &str, advice: &str) -> Result<PathBuf, Failure> {
    let names = [name.into(), Path::new("../lib/culvert").join(name)];
    place("library", &names).map_err(|failure| failure.advice(advice.to_owned()))
}

/// The headers: where they were installed, or, beside what cargo has made, in the source.
fn headers() -> Result<[PathBuf; 2], Failure> {
    let source = |name: &str| Path::new("../../crates").join(name).join("include");
    let api = [
        "../include/culvert/fuse.h".into(),
        "../../include/culvert/fuse.h".into(),
        source("culvert-fuse").join("fuse.h"),
    ];
    let driver = [
        "../include/culvert/driver.h".into(),
        "../../include/culvert/driver.h".into(),
        source("culvert-library").join("culvert/driver.h"),
    ];
    let above =
        |found: PathBuf, count: usize| found.ancestors().nth(count).unwrap_or(&found).to_owned();
    Ok([
        above(place("header", &api)?, 1),
        above(place("header", &driver)?, 2),
    ])
}

/// The first of `names`, from the command's directory, that there is.
fn place(what: &str, names: &[PathBuf]) -> Result<PathBuf, Failure> {
    let own = own_path()
        .map_err(|error| Failure::new(format!("cannot tell where culvert itself lies: {error}")))?;
    let here = own.parent().unwrap_or(Path::new("/"));
    let mut found = names.iter().map(|name| here.join(name).canonicalize());
    found.find_map(Result::ok).ok_or_else(|| {
        let name = names
            .first()
            .map(|name| here.join(name))
            .unwrap_or_default();
        Failure::new(format!("the {what} {} is missing", shown(&name)))
            .advice("install it by scripts/install")
    })
}

/// What is asked for, a line each.
pub fn describe(asked: &Config) -> Result<String, Failure> {
    let cflags = || -> Result<String, Failure> {
        let [api, driver] = headers()?;
        let (api, driver) = (api.display(), driver.display());
        Ok(format!("-D_FILE_OFFSET_BITS=64 -I{api} -I{driver}"))
    };
    let libs = || -> Result<String, Failure> {
        let library = library()?;
        let directory = library
            .parent()
            .unwrap_or(Path::new("/"))
            .display()
            .to_string();
        let [api, _] = headers()?;
        let names = api.join("fuse_names.ld");
        Ok(format!(
            "-L{directory} -Wl,-rpath,{directory} -lculvert_fuse -Wl,{}",
            names.display()
        ))
    };
    let mut text = String::new();
    if let Some(name) = &asked.pkg_config {
        let package = PACKAGES.iter().find(|(known, ..)| known == name);
        let (name, about, version) = package.ok_or_else(|| {
            let names = PACKAGES.map(|(name, ..)| name).join(", ");
            Failure::new(format!("no package \"{name}\"")).advice(format!("there are: {names}"))
        })?;
        text += &format!(
            "Name: {name}\nDescription: {about}\nVersion: {version}\nCflags: {}\nLibs: {}\n",
            cflags()?,
            libs()?
        );
    }
    let mut words = Vec::new();
    if asked.cflags {
        words.push(cflags()?);
    }
    if asked.libs {
        words.push(libs()?);
    }
    if !words.is_empty() {
        text += &(words.join(" ") + "\n");
    }
    Ok(text)
}
