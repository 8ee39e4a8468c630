//! The words of a mount, as C has them, and what a library says of them.

use super::answers::string;
use alloc::{ffi::CString, string::String, vec::Vec};
use core::ffi::{CStr, c_char, c_int};
use culvert::Result;
use culvert::library::abi::Mounted;
use culvert::mount::Mount;

/// Room for why `init` fails, bytes.
const REASON: usize = 512;

/// The words of a mount, as C has them, and room for a reason.
pub struct Words {
    source: CString,
    target: CString,
    _options: Vec<CString>,
    pointers: Vec<*const c_char>,
    reason: [c_char; REASON],
}

impl Words {
    /// Those of `mount`.
    ///
    /// # Errors
    /// `EINVAL`: one has a NUL.
    pub fn of(mount: &Mount) -> Result<Self> {
        let options = mount.options.iter();
        let options = options.filter(|(name, _)| !matches!(name.as_str(), "ro" | "rw"));
        let options = options.map(|(name, value)| match value.is_empty() {
            true => string(name.as_bytes()),
            false => string(&[name.as_bytes(), b"=", value].concat()),
        });
        let options = options.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            source: string(&mount.source)?,
            target: string(&mount.target)?,
            pointers: options.iter().map(|option| option.as_ptr()).collect(),
            _options: options,
            reason: [0; REASON],
        })
    }

    /// The structure, valid as long as `self` stays where it is.
    pub fn mounted(&mut self, read_only: bool) -> Mounted {
        Mounted {
            source: self.source.as_ptr(),
            target: self.target.as_ptr(),
            options: self.pointers.as_ptr(),
            option_count: self.pointers.len(),
            read_only: c_int::from(read_only),
            reason: self.reason.as_mut_ptr(),
            reason_size: self.reason.len(),
        }
    }

    /// What the library has said.
    pub fn said(&self) -> Option<String> {
        said(&self.reason)
    }
}

/// What `init` has said.
fn said(reason: &[c_char; REASON]) -> Option<String> {
    let bytes = reason.map(|byte| byte as u8);
    let words = CStr::from_bytes_until_nul(&bytes).ok()?;
    let words = String::from_utf8_lossy(words.to_bytes()).into_owned();
    Some(words).filter(|words| !words.is_empty())
}
