//! A record of a directory (ECMA-119, 9.1).

use culvert::Timespec;

/// Bytes before the name.
const FIXED: usize = 33;

/// See the module.
pub struct Record<'a> {
    /// Bytes of all of it.
    pub length: usize,
    /// The first block of its data, and how many blocks of attributes lie before them.
    pub block: u32,
    pub attributes: u8,
    /// Bytes.
    pub size: u64,
    time: [u8; 7],
    flags: u8,
    interleaved: bool,
    pub name: &'a [u8],
    /// What SUSP has.
    pub system_use: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that `bytes` begin with. None when there is none, or it is damaged.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let length = usize::from(*bytes.first()?);
        let bytes = bytes.get(..length).filter(|bytes| bytes.len() > FIXED)?;
        let name = bytes.get(FIXED..FIXED + usize::from(bytes[32]))?;
        // The name is padded to an even end.
        let behind = (FIXED + name.len()).next_multiple_of(2);
        Some(Self {
            length,
            attributes: bytes[1],
            block: super::both(bytes, 2)?,
            size: super::both(bytes, 10)?.into(),
            time: *bytes[18..].first_chunk()?,
            flags: bytes[25],
            interleaved: bytes[26] != 0 || bytes[27] != 0,
            name: (!name.is_empty()).then_some(name)?,
            system_use: bytes.get(behind..).unwrap_or(&[]),
        })
    }

    /// That of the directory itself, or of the one above.
    pub fn is_own_or_parent(&self) -> bool {
        matches!(self.name, [0 | 1])
    }

    pub fn is_directory(&self) -> bool {
        self.flags & 2 != 0
    }

    pub fn is_associated(&self) -> bool {
        self.flags & 4 != 0
    }

    pub fn is_interleaved(&self) -> bool {
        self.interleaved
    }

    /// Whether the next record has more of the file.
    pub fn goes_on(&self) -> bool {
        self.flags & 0x80 != 0
    }

    /// When it was recorded.
    pub fn time(&self) -> Timespec {
        short_time(&self.time)
    }
}

/// Years since 1900, month, day, hour, minute, second, quarters of an hour east of Greenwich.
pub fn short_time(bytes: &[u8; 7]) -> Timespec {
    let [year, month, day, hour, minute, second, zone] = bytes.map(i64::from);
    let zone = i64::from(zone as i8);
    seconds((1900 + year, month, day), (hour, minute, second), zone, 0)
}

/// The time of a date of the Gregorian calendar; 0 for one that is none.
pub fn seconds(
    (year, month, day): (i64, i64, i64),
    (hour, minute, second): (i64, i64, i64),
    zone: i64,
    nanoseconds: u32,
) -> Timespec {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return Timespec::default();
    }
    // Years that begin in March, so that a leap day is the last: 400 of them are 146,097 days.
    let (year, month) = match month > 2 {
        true => (year, month - 3),
        false => (year - 1, month + 9),
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + days - 719_468;
    Timespec {
        seconds: days * 86_400 + hour * 3600 + minute * 60 + second - zone * 900,
        nanoseconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |bytes| short_time(&bytes).seconds;
        assert_eq!(at([70, 1, 1, 0, 0, 0, 0]), 0);
        assert_eq!(at([100, 2, 29, 12, 34, 56, 4]), 951_827_696 - 3600);
        assert_eq!(at([126, 11, 26, 3, 35, 27, 0]), 1_795_664_127);
        assert_eq!(at([100, 13, 1, 0, 0, 0, 0]), 0);
    }

    #[test]
    fn records_that_are_too_short_are_none() {
        let whole = [
            &[34, 0, 20, 0, 0, 0, 0, 0, 0, 20, 0, 8, 0, 0, 0, 0, 8, 0][..],
            &[70, 1, 1, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 0],
        ]
        .concat();
        let record = Record::parse(&whole).unwrap();
        assert_eq!((record.block, record.size), (20, 2048));
        assert!(record.is_own_or_parent() && record.is_directory());
        for end in 0..whole.len() {
            assert!(Record::parse(&whole[..end]).is_none());
        }
    }
}
