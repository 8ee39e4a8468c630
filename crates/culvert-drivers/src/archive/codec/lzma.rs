//! LZMA as zip members have it (APPNOTE.TXT 5.8.8): a version, the properties, then the bare
//! stream.

use super::{damaged, decoder::Decoder, input::Input, xz::explain};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, vec, vec::Vec};
use culvert::{Errno, Error, Result};
use lzma_rust2::{Action, LzmaStream};

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Largest dictionary, bytes.
const LARGEST_DICTIONARY: u32 = 256 << 20;

/// Decodes one LZMA member from its start.
pub struct Lzma {
    input: Input,
    stream: Box<LzmaStream>,
    plain: u64,
    length: u64,
    memory: usize,
    out: Vec<u8>,
}

impl Lzma {
    /// The member at `start..end` of the archive, `plain_len` bytes when decoded.
    pub fn new(raw: &dyn Bytes, start: u64, end: u64, plain_len: u64) -> Result<Self> {
        let mut input = Input::new(start, end);
        let [_, _, 5, 0, properties, a, b, c, d] = input.take::<9>(raw, "an LZMA header")? else {
            return Err(damaged("an LZMA header is invalid"));
        };
        // No distance is longer than the data.
        let stated = u32::from_le_bytes([a, b, c, d]);
        let dictionary = stated
            .min(u32::try_from(plain_len).unwrap_or(u32::MAX))
            .max(4096);
        if dictionary > LARGEST_DICTIONARY {
            return Err(Error::because(
                Errno::EOPNOTSUPP,
                "the LZMA data needs a dictionary of more than 256 MiB",
            ));
        }
        let stream = LzmaStream::new_with_props(plain_len, properties, dictionary, None);
        Ok(Self {
            input,
            stream: Box::new(stream.map_err(explain)?),
            plain: 0,
            length: plain_len,
            memory: dictionary as usize,
            out: vec![0; PIECE],
        })
    }
}

impl Decoder for Lzma {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = (self.length - self.plain).min(wanted.clamp(1, PIECE) as u64) as usize;
        let mut count = 0;
        while count == 0 && wanted > 0 {
            self.input.fill(raw, 4096)?;
            let action = match self.input.ended {
                true => Action::Finish,
                false => Action::Run,
            };
            let step = self
                .stream
                .process(self.input.available(), &mut self.out[..wanted], action)
                .map_err(explain)?;
            self.input.consume(step.bytes_consumed);
            count = step.bytes_produced;
            if count == 0 && step.bytes_consumed == 0 {
                return Err(self.input.truncated("the LZMA data"));
            }
        }
        self.plain += count as u64;
        Ok(&self.out[..count])
    }

    fn memory(&self) -> usize {
        self.input.memory() + self.out.len() + self.memory
    }
}
