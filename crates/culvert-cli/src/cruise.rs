//! The environment variables of CRUISE, as options of file systems in memory.
//!
//! They complete what a mount does not say itself. `CRUISE_CHUNK_BITS` means nothing here, as
//! blocks are pages; nor does `CRUISE_USE_SINGLE_SHM`, as all processes of a run share.

use crate::failure::{Failure, shown};
use culvert::mount::Mount;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a spill may hold where nothing is said, and where it lies.
const SPILL_SIZE: u64 = 1 << 30;
const SPILL_PLACE: &str = "/tmp";
/// The least size of a file system in memory.
const LEAST: u64 = 256 << 10;

/// Completes the mounts of memory in `mount` by the variables that `variable` knows.
pub fn complete(
    mount: &mut Mount,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(), Failure> {
    for branch in &mut mount.branches {
        complete(branch, variable)?;
    }
    if mount.driver != "memory" {
        return Ok(());
    }
    let says_nodes = mount.option("numa").is_some();
    let number = |name: &str| match variable(name) {
        None => Ok(None),
        Some(text) => parse(&text).map(Some).ok_or_else(|| bad(name, &text)),
    };
    let mut set = |name: &str, value: Vec<u8>| {
        if mount.option(name).is_none() {
            mount.options.push((name.into(), value));
        }
    };
    let decimal = |number: u64| number.to_string().into_bytes();
    if let Some(bytes) = number("CRUISE_CHUNK_MEM")? {
        set("size", decimal(bytes.max(LEAST)));
    }
    if let Some(files) = number("CRUISE_MAX_FILES")? {
        // The root is one here.
        set("inodes", decimal(files.saturating_add(1)));
    }
    if number("CRUISE_USE_SPILLOVER")?.is_some_and(|used| used != 0) {
        let place = variable("CRUISE_EXTERNAL_DATA_DIR").unwrap_or_else(|| SPILL_PLACE.into());
        let bytes = number("CRUISE_SPILLOVER_SIZE")?.unwrap_or(SPILL_SIZE);
        set("spill", place.into_vec());
        set("spill-size", decimal(bytes.max(1)));
    }
    if let Some(policy) = variable("CRUISE_NUMA_POLICY") {
        match policy.as_bytes() {
            b"interleaved" => set("numa", b"interleave".to_vec()),
            b"local" => set("numa", b"local".to_vec()),
            b"default" => {}
            _ => return Err(bad("CRUISE_NUMA_POLICY", &policy)),
        }
    }
    // Of the two variables the bank counts.
    if let Some(bank) = number("CRUISE_USE_NUMA_BANK")?
        && !says_nodes
    {
        mount.options.retain(|(name, _)| name != "numa");
        let value = format!("bind:{bank}").into_bytes();
        mount.options.push(("numa".into(), value));
    }
    Ok(())
}

fn bad(name: &str, value: &OsStr) -> Failure {
    Failure::new(format!("{name}: \"{}\" makes no sense", shown(value))).advice(format!(
        "culvert reads CRUISE's variables for file systems in memory; unset {name} to be without"
    ))
}

/// A number, perhaps with a fraction, a unit (k, m, g) and a b: CRUISE's.
fn parse(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?.trim().to_ascii_lowercase();
    let text = text.strip_suffix('b').unwrap_or(&text);
    let (digits, unit) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1u64 << 10),
        'm' => (&text[..text.len() - 1], 1 << 20),
        'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: f64 = digits.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<String, Failure> {
        let mut mount = Mount {
            driver: "memory".into(),
            source: b"memory".to_vec(),
            target: b"/t".to_vec(),
            options: options
                .iter()
                .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
                .collect(),
            branches: Vec::new(),
        };
        complete(&mut mount, &|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })?;
        let options = mount.options.iter();
        let options: Vec<String> = options
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        Ok(options.join(","))
    }

    #[test]
    fn variables_become_options_that_are_not_stated() {
        for (options, variables, want) in [
            (&[][..], &[][..], ""),
            (&[], &[("CRUISE_CHUNK_MEM", "10mb")], "size=10485760"),
            (&[], &[("CRUISE_CHUNK_MEM", "1.5G")], "size=1610612736"),
            (&[], &[("CRUISE_CHUNK_MEM", "0")], "size=262144"),
            (
                &[("size", "1m")],
                &[("CRUISE_CHUNK_MEM", "10mb")],
                "size=1m",
            ),
            (&[], &[("CRUISE_MAX_FILES", "128")], "inodes=129"),
            (
                &[],
                &[("CRUISE_USE_SPILLOVER", "1")],
                "spill=/tmp,spill-size=1073741824",
            ),
            (&[], &[("CRUISE_USE_SPILLOVER", "0")], ""),
            (
                &[],
                &[
                    ("CRUISE_USE_SPILLOVER", "1"),
                    ("CRUISE_SPILLOVER_SIZE", "64k"),
                    ("CRUISE_EXTERNAL_DATA_DIR", "/l/ssd"),
                ],
                "spill=/l/ssd,spill-size=65536",
            ),
            (
                &[],
                &[("CRUISE_NUMA_POLICY", "interleaved")],
                "numa=interleave",
            ),
            (&[], &[("CRUISE_NUMA_POLICY", "default")], ""),
            (
                &[],
                &[
                    ("CRUISE_NUMA_POLICY", "local"),
                    ("CRUISE_USE_NUMA_BANK", "1"),
                ],
                "numa=bind:1",
            ),
            (
                &[("numa", "local")],
                &[("CRUISE_USE_NUMA_BANK", "1")],
                "numa=local",
            ),
        ] {
            assert_eq!(completed(options, variables).unwrap(), want);
        }
        for (name, value) in [
            ("CRUISE_CHUNK_MEM", "much"),
            ("CRUISE_NUMA_POLICY", "strange"),
            ("CRUISE_USE_NUMA_BANK", "-1"),
        ] {
            assert!(completed(&[], &[(name, value)]).is_err(), "{name}");
        }
    }
}
