//! LZMA streams as lzma-rust2 decodes them: bare ones, as zip members have them (APPNOTE.TXT
//! 5.8.8), and xz.

use super::{damaged, decoder::Decoder, input::Input};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, format, vec, vec::Vec};
use culvert::{Errno, Error, Result};
use lzma_rust2::{Action, FilterConfig, FilterType, Lzma2Stream, LzmaStream, Status, XzStream};

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Largest dictionary, KiB: four times that of `xz -9`.
const LARGEST_DICTIONARY: u32 = 256 << 10;

enum Stream {
    Bare(Box<LzmaStream>, usize),
    Lzma2(Box<Lzma2Stream>),
    Xz(Box<XzStream>),
}

/// Decodes LZMA data from its start.
pub struct Lzma {
    input: Input,
    stream: Stream,
    plain: u64,
    ended: bool,
    /// The input is a part of a stream, which ends where the input does.
    part: bool,
    out: Vec<u8>,
}

impl Lzma {
    fn new(input: Input, stream: Stream, plain: u64) -> Self {
        Self {
            input,
            stream,
            plain,
            ended: false,
            part: false,
            out: vec![0; PIECE],
        }
    }

    /// The bare stream at `start..end` of the archive, `length` bytes when decoded: a version, the
    /// properties, then the data.
    pub fn bare(raw: &dyn Bytes, start: u64, end: u64, length: u64) -> Result<Self> {
        let mut input = Input::new(start, end);
        let [_, _, 5, 0, properties, a, b, c, d] = input.take::<9>(raw, "an LZMA header")? else {
            return Err(damaged("an LZMA header is invalid"));
        };
        // No distance is longer than the data.
        let stated = u32::from_le_bytes([a, b, c, d]);
        let dictionary = stated
            .min(u32::try_from(length).unwrap_or(u32::MAX))
            .max(4096);
        if dictionary > LARGEST_DICTIONARY << 10 {
            return Err(explain(lzma_rust2::Error::OutOfMemory("")));
        }
        let stream = LzmaStream::new_with_props(length, properties, dictionary, None);
        let stream = Stream::Bare(Box::new(stream.map_err(explain)?), dictionary as usize);
        Ok(Self::new(input, stream, 0))
    }

    /// The stream at `start..end` of the archive as lzip has it, without properties in front, whose
    /// first byte is plain byte `plain`, `length` bytes when decoded.
    pub fn raw((start, end): (u64, u64), dictionary: u32, plain: u64, length: u64) -> Result<Self> {
        /// lc 3, lp 0, pb 2, as LZMA's header has them.
        const PROPERTIES: u8 = 93;
        let least = dictionary.min(u32::try_from(length).unwrap_or(u32::MAX));
        let dictionary = least.max(4096);
        if dictionary > LARGEST_DICTIONARY << 10 {
            return Err(explain(lzma_rust2::Error::OutOfMemory("")));
        }
        let stream = LzmaStream::new_with_props(length, PROPERTIES, dictionary, None);
        let stream = Stream::Bare(Box::new(stream.map_err(explain)?), dictionary as usize);
        let mut lzma = Self::new(Input::new(start, end), stream, plain);
        lzma.ended = length == 0;
        Ok(lzma)
    }

    /// The stream at `place` of the archive with its properties and the size of its dictionary told
    /// apart, as 7z has it, `length` bytes when decoded.
    pub fn with_properties(
        (start, end): (u64, u64),
        (properties, dictionary): (u8, u32),
        length: u64,
    ) -> Result<Self> {
        let least = dictionary.min(u32::try_from(length).unwrap_or(u32::MAX));
        let dictionary = least.max(4096);
        if dictionary > LARGEST_DICTIONARY << 10 {
            return Err(explain(lzma_rust2::Error::OutOfMemory("")));
        }
        let stream = LzmaStream::new_with_props(length, properties, dictionary, None);
        let stream = Stream::Bare(Box::new(stream.map_err(explain)?), dictionary as usize);
        Ok(Self::new(Input::new(start, end), stream, 0))
    }

    /// The LZMA2 data at `place` of the archive, behind the filter of this number of xz's and
    /// property; 0: none.
    pub fn lzma2(
        (start, end): (u64, u64),
        dictionary: u32,
        (filter, property): (u8, u32),
    ) -> Result<Self> {
        let mut stream = Lzma2Stream::new_mem_limit(dictionary, LARGEST_DICTIONARY + 1024);
        if filter != 0 {
            let filter_type = FilterType::try_from(u64::from(filter));
            let filter_type = filter_type.map_err(|()| damaged("a filter that there is not"))?;
            let filters = [FilterConfig {
                filter_type,
                property,
            }];
            stream.set_filters(&filters).map_err(explain)?;
        }
        Ok(Self::new(
            Input::new(start, end),
            Stream::Lzma2(Box::new(stream)),
            0,
        ))
    }

    /// The xz streams at `start..end` of the archive.
    pub fn xz(start: u64, end: u64) -> Self {
        let stream = XzStream::new_mem_limit(true, LARGEST_DICTIONARY + 1024);
        Self::new(Input::new(start, end), Stream::Xz(Box::new(stream)), 0)
    }

    /// The block of an xz stream at `start..end`, whose first byte is plain byte `plain`; `header`
    /// is that of the stream.
    pub fn xz_block(start: u64, end: u64, plain: u64, header: &[u8]) -> Result<Self> {
        let mut lzma = Self::xz(start, end);
        if let Stream::Xz(stream) = &mut lzma.stream {
            let step = stream.process(header, &mut [], Action::Run);
            step.map_err(explain)?;
        }
        (lzma.plain, lzma.part) = (plain, true);
        Ok(lzma)
    }

    /// Goes on up to byte `end` of the archive, where a part of the streams ends, or all of them.
    pub fn go_on(&mut self, end: u64, part: bool) {
        self.input.end_at(end);
        (self.part, self.ended) = (part, false);
    }

    /// Where the next byte is read in the archive.
    pub fn raw_position(&self) -> u64 {
        self.input.position()
    }
}

/// What lzma-rust2 says, as ours.
fn explain(error: lzma_rust2::Error) -> Error {
    use lzma_rust2::Error as E;
    match error {
        E::OutOfMemory(_) => Error::because(
            Errno::EOPNOTSUPP,
            format!(
                "the LZMA data needs a dictionary of more than {} MiB",
                LARGEST_DICTIONARY >> 10
            ),
        ),
        E::Unsupported(cause) => Error::because(Errno::EOPNOTSUPP, cause),
        // Filters that it does not know, or not together ("Unsupported", "not supported yet").
        E::InvalidData(cause) if cause.contains("upported") => {
            Error::because(Errno::EOPNOTSUPP, cause)
        }
        E::InvalidData(cause) | E::InvalidInput(cause) | E::Other(cause) => damaged(cause),
        _ => damaged("the LZMA data is damaged"),
    }
}

impl Decoder for Lzma {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.clamp(1, PIECE);
        let mut count = 0;
        while count == 0 && !self.ended {
            self.input.fill(raw, 4096)?;
            let action = match self.input.ended && !self.part {
                true => Action::Finish,
                false => Action::Run,
            };
            let (input, out) = (self.input.available(), &mut self.out[..wanted]);
            let step = match &mut self.stream {
                Stream::Bare(stream, _) => stream.process(input, out, action),
                Stream::Lzma2(stream) => stream.process(input, out, action),
                Stream::Xz(stream) => stream.process(input, out, action),
            };
            let step = step.map_err(|error| match error {
                lzma_rust2::Error::Eof => self.input.truncated("the LZMA data"),
                error => explain(error).within(&format!("LZMA data, plain byte {}", self.plain)),
            })?;
            self.input.consume(step.bytes_consumed);
            count = step.bytes_produced;
            self.ended = step.status == Status::StreamEnd;
            if count == 0 && step.bytes_consumed == 0 && !self.ended {
                if !self.part {
                    return Err(self.input.truncated("the LZMA data"));
                }
                self.ended = true;
            }
        }
        self.plain += count as u64;
        Ok(&self.out[..count])
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn memory(&self) -> usize {
        let stream = match &self.stream {
            Stream::Bare(_, dictionary) => *dictionary,
            Stream::Lzma2(stream) => stream.memory_usage().unwrap_or(0) as usize * 1024,
            Stream::Xz(stream) => stream.memory_usage().unwrap_or(0) as usize * 1024,
        };
        self.input.memory() + self.out.len() + stream
    }
}
