//! Where the driver of a mount runs: option `place` of every mount.

use super::is_served;
use crate::failure::{Failure, shown};
use culvert::mount::{Mount, is_library};
use culvert_drivers::object::{self, Fit};
use std::path::Path;

/// Where a driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In each process of the run.
    Process,
    /// In a process of its own.
    Host,
}

/// The option's name.
const PLACE: &str = "place";

impl Place {
    /// Where the driver of `mount` is to run; the option is taken out of it.
    pub fn take(mount: &mut Mount) -> Result<Self, Failure> {
        let is_server = is_served(&mount.driver);
        let is_library = is_library(&mount.driver);
        let asked = match mount.option(PLACE) {
            None if is_server => Ok(Self::Host),
            None if is_library => Ok(match object::fit(mount.driver.as_bytes()) {
                Ok(Fit::Process) => Self::Process,
                // Where it cannot be read, who loads it says why.
                Ok(Fit::Host(_)) | Err(_) => Self::Host,
            }),
            None => Ok(Self::Process),
            Some(b"host") => Ok(Self::Host),
            Some(b"process") if is_server => Err(Failure::new(format!(
                "place=process: type {} is a program of its own",
                mount.driver
            ))
            .advice("leave the option out")),
            Some(b"process") if is_library => match object::fit(mount.driver.as_bytes()) {
                Ok(Fit::Host(why)) => Err(Failure::new(format!(
                    "place=process: {} is not loaded into programs: {why}",
                    shown(Path::new(&mount.driver))
                ))
                .advice("leave the option out: it runs in a host")),
                // Where it cannot be read, who loads it says why.
                Ok(Fit::Process) | Err(_) => Ok(Self::Process),
            },
            Some(b"process") => Ok(Self::Process),
            Some(other) => {
                let other = String::from_utf8_lossy(other).escape_debug().to_string();
                Err(Failure::new(format!("option place={other}: no such place"))
                    .advice("give host or process (the default)"))
            }
        }?;
        mount.options.retain(|(name, _)| name != PLACE);
        Ok(asked)
    }

    /// Refuses the option where there is no choice, for `culvert mount`.
    pub fn refuse(options: &[(String, Vec<u8>)]) -> Result<(), Failure> {
        match options.iter().any(|(name, _)| name == PLACE) {
            false => Ok(()),
            true => Err(Failure::new(
                "option place is for culvert run: a kernel mount has one server",
            )
            .advice("leave it out")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(driver: &str, place: Option<&str>) -> Result<(Place, usize), String> {
        let option = |value: &str| (PLACE.to_owned(), value.as_bytes().to_vec());
        let mut mount = Mount {
            driver: driver.into(),
            source: b"memory".to_vec(),
            target: b"/mnt".to_vec(),
            options: place.map(option).into_iter().collect(),
            branches: Vec::new(),
        };
        let place = Place::take(&mut mount).map_err(|failure| failure.to_string())?;
        Ok((place, mount.options.len()))
    }

    #[test]
    fn a_driver_runs_where_it_is_asked_to() {
        assert_eq!(taken("memory", None), Ok((Place::Process, 0)));
        assert_eq!(taken("memory", Some("process")), Ok((Place::Process, 0)));
        assert_eq!(taken("memory", Some("host")), Ok((Place::Host, 0)));
        assert_eq!(taken("/a/b.so", None), Ok((Place::Host, 0)));
        // Who loads it says that it is not there.
        assert_eq!(taken("/a/b.so", Some("process")), Ok((Place::Process, 0)));
        assert_eq!(taken("fuse.sshfs", None), Ok((Place::Host, 0)));
        assert!(
            taken("fuse", Some("process"))
                .unwrap_err()
                .contains("of its own")
        );
        assert!(
            taken("memory", Some("moon"))
                .unwrap_err()
                .contains("place=moon")
        );
    }
}
