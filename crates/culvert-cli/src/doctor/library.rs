//! Where a driver in a shared library would run, and why.

use super::json::Value;
use crate::{
    failure::{Failure, shown},
    shared_object,
};
use culvert::mount::is_library;
use culvert_drivers::object::{self, Fit};
use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

/// A driver in a shared library.
pub struct Library {
    file: PathBuf,
    place: &'static str,
    why: String,
}

/// The library that `name` means, if it is one.
pub fn examine(name: &OsStr) -> Result<Option<Library>, Failure> {
    let Some(typed) = name.to_str().filter(|typed| is_library(typed)) else {
        return Ok(None);
    };
    let (place, why) = match shared_object::kind(typed) {
        shared_object::Kind::Other => return Ok(None),
        shared_object::Kind::Server => {
            ("host", "its main is called, as a FUSE server's".to_owned())
        }
        shared_object::Kind::Driver => {
            let wrong = |error: culvert::Error| {
                Failure::new(format!("{}: {error}", shown(Path::new(typed))))
            };
            match object::fit(name.as_encoded_bytes()).map_err(wrong)? {
                Fit::Process => ("process", "it is stateless and needs no libc".into()),
                Fit::Host(why) => ("host", why),
            }
        }
    };
    let file = Path::new(typed).to_owned();
    Ok(Some(Library { file, place, why }))
}

impl Library {
    pub fn to_json(&self) -> Value {
        Value::Object(vec![
            ("file", shown(&self.file).into()),
            ("place", self.place.into()),
            ("reason", self.why.as_str().into()),
        ])
    }
}

impl fmt::Display for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, place, why) = (shown(&self.file), self.place, &self.why);
        writeln!(out, "{file} is a driver; it runs with place={place}: {why}")
    }
}
