//! Zstandard (RFC 8878): frames one after another, each decodable only from its start. Frames are
//! found in the build pass, skippable ones are skipped; long ones are spooled.

use super::{
    Format, Options,
    checkpoints::{Checkpoints, Point},
    damaged,
    decoder::Decoder,
    input::Input,
    spool::Spooler,
};
use crate::archive::bytes::Bytes;
use alloc::{format, string::String, vec, vec::Vec};
use culvert::{Errno, Error, Result};
use ruzstd::{
    decoding::{BlockDecodingStrategy, FrameDecoder, errors::FrameDecoderError},
    io,
};

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Frames of at least so many plain bytes are spooled: decoding less takes up to 20 ms.
const SPOOL_FROM: u64 = 8 << 20;
/// Largest window, bytes: what zstd(1) accepts without `--long` or `--memory`.
const LARGEST_WINDOW: u64 = 128 << 20;

const MAGIC: u32 = 0xfd2f_b528;

/// The archive, as the decoder reads it.
struct Source<'a> {
    input: &'a mut Input,
    raw: &'a dyn Bytes,
    failed: &'a mut Option<Error>,
}

impl io::Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> core::result::Result<usize, io::Error> {
        if let Err(error) = self.input.fill(self.raw, 1) {
            *self.failed = Some(error);
            return Err(io::Error::from(io::ErrorKind::Other));
        }
        let available = self.input.available();
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.input.consume(count);
        Ok(count)
    }
}

/// The window of the frame that starts with `bytes` (RFC 8878, 3.1.1.1.2); none where it is as long
/// as the content.
fn window(bytes: &[u8]) -> Option<u64> {
    let &[descriptor, window] = bytes.get(4..6)? else {
        return None;
    };
    let base = 1u64 << (10 + (window >> 3));
    (descriptor & 0x20 == 0).then_some(base + base / 8 * u64::from(window & 7))
}

/// Decodes frames from a point on.
pub struct Zstd {
    input: Input,
    decoder: FrameDecoder,
    /// Inside a frame.
    inside: bool,
    frames: u64,
    window: u64,
    plain: u64,
    out: Vec<u8>,
}

impl Zstd {
    /// From the frame at `start`, whose first byte is plain byte `plain`; the data ends at `end`.
    pub fn new(start: u64, end: u64, plain: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(LARGEST_WINDOW);
        Self {
            input: Input::new(start, end),
            decoder,
            inside: false,
            frames: 0,
            window: 0,
            plain,
            out: vec![0; PIECE],
        }
    }

    /// From `point` of the table.
    pub fn open(raw: &dyn Bytes, point: &Point) -> Self {
        Self::new(point.raw, raw.len(), point.extra)
    }

    /// Goes into the next frame: where it starts, and its plain length if it says so. None at the
    /// end.
    fn begin(&mut self, raw: &dyn Bytes) -> Result<Option<(u64, Option<u64>)>> {
        loop {
            self.input.fill(raw, 18)?;
            let start = self.input.position();
            let available = self.input.available();
            if available.is_empty() && self.frames > 0 {
                return Ok(None);
            }
            let Some(magic) = available.first_chunk::<4>() else {
                return Err(self.input.truncated("a zstd frame header"));
            };
            match u32::from_le_bytes(*magic) {
                MAGIC => {
                    let window = window(available);
                    self.run(raw, |decoder, source| decoder.reset(source))?;
                    let content = self.decoder.content_size();
                    self.window = window.unwrap_or(content);
                    self.inside = true;
                    return Ok(Some((start, (content > 0).then_some(content))));
                }
                0x184d_2a50..=0x184d_2a5f => {
                    self.input.consume(4);
                    let length = u32::from_le_bytes(self.input.take(raw, "a skippable frame")?);
                    let next = self.input.position() + u64::from(length);
                    if next > self.input.limit() {
                        return Err(self.input.truncated("a skippable zstd frame"));
                    }
                    self.input.seek(next);
                    self.frames += 1;
                }
                _ => {
                    return Err(damaged(format!(
                        "no zstd frame where one should start (byte {start})"
                    )));
                }
            }
        }
    }

    fn run<T>(
        &mut self,
        raw: &dyn Bytes,
        step: impl FnOnce(&mut FrameDecoder, Source<'_>) -> core::result::Result<T, FrameDecoderError>,
    ) -> Result<T> {
        let mut failed = None;
        let source = Source {
            input: &mut self.input,
            raw,
            failed: &mut failed,
        };
        step(&mut self.decoder, source).map_err(|error| {
            if let Some(failed) = failed {
                return failed;
            }
            let unsupported = match &error {
                FrameDecoderError::DictNotProvided { .. } => "needs a dictionary".into(),
                FrameDecoderError::WindowSizeTooBig { requested, max } => format!(
                    "needs a window of {} MiB; the most is {} MiB",
                    requested >> 20,
                    max >> 20
                ),
                _ => String::new(),
            };
            if !unsupported.is_empty() {
                let cause = format!("the zstd data {unsupported}");
                return Error::because(Errno::EOPNOTSUPP, cause);
            }
            if self.input.ended && self.input.available().is_empty() {
                return self.input.truncated("a zstd frame");
            }
            damaged(format!(
                "zstd frame {}, plain byte {}: {error}",
                self.frames + 1,
                self.plain
            ))
        })
    }

    /// Decodes up to `wanted` bytes of the present frame; none at its end.
    fn inside(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.clamp(1, PIECE);
        loop {
            if self.decoder.can_collect() > 0 {
                let count = io::Read::read(&mut self.decoder, &mut self.out[..wanted])
                    .map_err(|error| damaged(format!("zstd: {error}")))?;
                self.plain += count as u64;
                return Ok(&self.out[..count]);
            }
            if self.decoder.is_finished() {
                self.frames += 1;
                self.inside = false;
                if let Some(stated) = self.decoder.get_checksum_from_data()
                    && self.decoder.get_calculated_checksum() != Some(stated)
                {
                    return Err(damaged(format!(
                        "the checksum of zstd frame {} differs",
                        self.frames
                    )));
                }
                return Ok(&[]);
            }
            self.run(raw, |decoder, source| {
                decoder.decode_blocks(source, BlockDecodingStrategy::UptoBlocks(1))
            })?;
        }
    }
}

impl Decoder for Zstd {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        loop {
            if !self.inside && self.begin(raw)?.is_none() {
                return Ok(&[]);
            }
            let count = self.inside(raw, wanted)?.len();
            if count > 0 {
                return Ok(&self.out[..count]);
            }
        }
    }

    fn memory(&self) -> usize {
        self.input.memory() + self.out.len() + self.window as usize + (256 << 10)
    }
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut zstd = Zstd::new(0, raw.len(), 0);
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    while let Some((start, content)) = zstd.begin(raw)? {
        spooler.begin(start, content, Vec::new());
        while zstd.inside {
            let piece = zstd.inside(raw, PIECE)?;
            spooler.feed(piece);
            sink(piece)?;
            progress(zstd.input.position());
        }
        spooler.end();
    }
    let raw_end = zstd.input.position();
    spooler.finish().finish(Format::Zstd, zstd.plain, raw_end)
}
