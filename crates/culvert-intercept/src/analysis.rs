//! What interception would find in an ELF file, without running it.

use crate::elf::Image;
use crate::functions::Functions;
use crate::search::{self, Found};
use crate::sites::{Kind, Site};
use alloc::vec::Vec;

/// How a file comes to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// A program that ld.so starts, at this path: libculvert.so can be loaded with it.
    Dynamic(Vec<u8>),
    /// A program without an interpreter: nothing can be loaded with it.
    Static,
    /// A shared object.
    Library,
}

/// What is known of an ELF file.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// How it is run.
    pub linkage: Linkage,
    /// Its build-id.
    pub build_id: Option<Vec<u8>>,
    /// How many functions it describes.
    pub functions: usize,
    /// Whether it has a table of frame descriptions (`.eh_frame_hdr`).
    pub frames: bool,
    /// Its system-call sites, by address.
    pub sites: Vec<Site>,
    /// Byte pairs 0f 05 in its code, most of which are no system calls.
    pub pairs: usize,
    /// Those of them that lie in no known function; a system call there would not be seen.
    pub unknown: usize,
}

impl Analysis {
    /// How many sites are of this kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.sites.iter().filter(|site| site.kind == kind).count()
    }

    /// How many sites get their number from somewhere else than the instructions before them.
    pub fn variable_numbers(&self) -> usize {
        self.sites.iter().filter(|site| site.number < 0).count()
    }
}

/// Analyses the ELF file whose contents are `bytes`. Fails with the reason when it is no 64-bit
/// x86-64 executable or shared object.
///
/// ```
/// let program = std::fs::read("/proc/self/exe").unwrap();
/// let analysis = culvert_intercept::analysis::file(&program).unwrap();
/// assert!(analysis.functions > 0);
/// assert!(culvert_intercept::analysis::file(b"#!/bin/sh").is_err());
/// ```
pub fn file(bytes: &[u8]) -> Result<Analysis, &'static str> {
    let image = Image::of_file(bytes)?;
    let functions = Functions::of_file(&image, bytes);
    let Found {
        sites,
        pairs,
        unknown,
    } = search::find(&image, &functions);
    let linkage = match image.interpreter() {
        Some(path) => Linkage::Dynamic(path.into()),
        None if image.kind == 2 || image.is_position_independent_program() => Linkage::Static,
        None => Linkage::Library,
    };
    Ok(Analysis {
        linkage,
        build_id: image.build_id().map(Vec::from),
        functions: functions.count(),
        frames: image.frame_header().is_some(),
        sites,
        pairs,
        unknown,
    })
}
