//! Reading compressed data from any offset.

use super::{
    Format, alone,
    bzip2::Bzip2,
    checkpoints::{Checkpoints, Point},
    compress::Compress,
    damaged,
    decoder::Decoder,
    folders,
    gzip::Gzip,
    lzip,
    spool::{CHUNK_HERE, STRETCH, Spooled},
    xz,
    zstd::Zstd,
};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{Result, Sink, sync::Mutex};

/// Unit of the cache of plain data, bytes.
const CHUNK: usize = 64 << 10;
/// Chunks that a stream keeps: 4 MiB.
const CHUNKS: usize = 64;
/// Decoders that a stream keeps where it left them, so that as many sequential readers go on
/// without starting anew.
const DECODERS: usize = 6;
/// ... as long as they take no more memory together than this, bytes; one is always kept.
const DECODERS_MEMORY: usize = 48 << 20;
/// On the way to a chunk that is wanted, so many chunks before it are kept.
const KEPT_ON_THE_WAY: u64 = 16;

/// Opens decoders.
pub trait Opener: Send + Sync {
    /// Length of the plain data.
    fn plain_len(&self) -> u64;
    /// The last plain offset at or before `plain` where a decoder can start, and what else is known
    /// of it.
    fn find(&self, plain: u64) -> Result<Point>;
    /// A decoder that starts at `point`.
    fn open(&self, raw: &dyn Bytes, point: &Point) -> Result<Box<dyn Decoder>>;
}

struct Chunk {
    index: u64,
    used: u64,
    bytes: Arc<Vec<u8>>,
}

/// A decoder, and what it decoded of a chunk that is not yet whole.
struct Reader {
    decoder: Box<dyn Decoder>,
    begun: Vec<u8>,
    /// Plain offset behind `begun`.
    behind: u64,
    /// Where the decoder before this one ended.
    ended_at: u64,
    used: u64,
}

#[derive(Default)]
struct Kept {
    chunks: Vec<Chunk>,
    readers: Vec<Reader>,
    clock: u64,
}

/// Plain bytes behind an [`Opener`], with a cache of chunks and of decoders. Thread-safe: decoding
/// runs outside the lock.
pub struct Cached<O> {
    raw: Arc<dyn Bytes>,
    opener: O,
    kept: Mutex<Kept>,
    chunks: usize,
}

impl<O: Opener> Cached<O> {
    /// Keeps up to `chunks` chunks.
    pub fn new(raw: Arc<dyn Bytes>, opener: O, chunks: usize) -> Self {
        Self {
            raw,
            opener,
            kept: Mutex::new(Kept::default()),
            chunks,
        }
    }

    pub fn opener(&self) -> &O {
        &self.opener
    }

    /// Reads from `offset` on into `out` until it is full or the data ends; returns the bytes put.
    /// An error after some bytes is a short read.
    pub fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let length = self.opener.plain_len();
        let mut done = 0;
        while out.remaining() > 0 && offset + (done as u64) < length {
            let at = offset + done as u64;
            let put = self.chunk(at / CHUNK as u64).and_then(|chunk| {
                let rest = chunk.get((at % CHUNK as u64) as usize..);
                match rest {
                    Some(rest) if !rest.is_empty() => out.put(rest),
                    _ => Err(damaged("the compressed data ends too early")),
                }
            });
            match put {
                Ok(0) => break,
                Ok(put) => done += put,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn chunk(&self, index: u64) -> Result<Arc<Vec<u8>>> {
        let target = index * CHUNK as u64;
        if let Some(bytes) = self.kept_chunk(index) {
            return Ok(bytes);
        }
        let point = self.opener.find(target)?;
        let mut reader = match self.take_reader(&point, target) {
            Some(reader) => reader,
            None => Reader {
                decoder: self.opener.open(&*self.raw, &point)?,
                begun: Vec::new(),
                behind: 0,
                ended_at: 0,
                used: 0,
            },
        };
        let found = self.advance(&mut reader, index)?;
        self.keep_reader(reader);
        Ok(found)
    }

    fn kept_chunk(&self, index: u64) -> Option<Arc<Vec<u8>>> {
        let kept = &mut *self.kept.lock();
        kept.clock += 1;
        let chunk = kept.chunks.iter_mut().find(|chunk| chunk.index == index)?;
        chunk.used = kept.clock;
        Some(chunk.bytes.clone())
    }

    /// The kept reader nearest before `target`, unless starting at `point` is nearer.
    fn take_reader(&self, point: &Point, target: u64) -> Option<Reader> {
        let kept = &mut *self.kept.lock();
        let can = |reader: &Reader| {
            let at = reader.decoder.position();
            let begun = at == reader.behind && at - (reader.begun.len() as u64) <= target;
            at >= point.plain && (at <= target || begun)
        };
        let (best, _) = kept
            .readers
            .iter()
            .enumerate()
            .filter(|(_, reader)| can(reader))
            .max_by_key(|(_, reader)| reader.decoder.position())?;
        Some(kept.readers.swap_remove(best))
    }

    fn keep_reader(&self, mut reader: Reader) {
        let kept = &mut *self.kept.lock();
        reader.used = kept.clock;
        kept.readers.push(reader);
        let memory = |kept: &Kept| {
            kept.readers
                .iter()
                .map(|r| r.decoder.memory())
                .sum::<usize>()
        };
        while kept.readers.len() > 1
            && (kept.readers.len() > DECODERS || memory(kept) > DECODERS_MEMORY)
        {
            let oldest = kept.readers.iter().enumerate().min_by_key(|(_, r)| r.used);
            let Some((oldest, _)) = oldest else { break };
            kept.readers.swap_remove(oldest);
        }
    }

    /// Decodes until chunk `wanted` is whole, and returns it.
    fn advance(&self, reader: &mut Reader, wanted: u64) -> Result<Arc<Vec<u8>>> {
        let length = self.opener.plain_len();
        let keep_from = wanted.saturating_sub(KEPT_ON_THE_WAY.min(self.chunks as u64 / 2));
        let mut found = None;
        while found.is_none() {
            self.go_on(reader)?;
            let mut at = reader.decoder.position();
            let end = length.min((wanted + 1).saturating_mul(CHUNK as u64));
            let step = end.saturating_sub(at).clamp(1, 1 << 20) as usize;
            let mut piece = reader.decoder.next(&*self.raw, step)?;
            if piece.is_empty() {
                match reader.decoder.ended() && at < end {
                    true => continue,
                    false => break,
                }
            }
            if at >= end {
                break;
            }
            while !piece.is_empty() {
                let index = at / CHUNK as u64;
                let within = (at % CHUNK as u64) as usize;
                let whole = (length - index * CHUNK as u64).min(CHUNK as u64) as usize;
                let Some(missing) = whole.checked_sub(within).filter(|&n| n > 0) else {
                    return Err(damaged("the compressed data is longer than its index says"));
                };
                let part = piece.split_off(..missing.min(piece.len())).unwrap_or(&[]);
                at += part.len() as u64;
                let start = at - part.len() as u64;
                // A chunk that was entered in its middle, or lies far before what is wanted, is not
                // kept.
                if reader.begun.is_empty() || start > reader.behind || index < keep_from {
                    reader.begun.clear();
                    reader.behind = start;
                }
                // A decoder that took over may have started before what is known.
                if reader.behind - reader.begun.len() as u64 == index * CHUNK as u64
                    && index >= keep_from
                    && let Some(news) = part.get((reader.behind - start) as usize..)
                {
                    reader.begun.reserve_exact(whole - reader.begun.len());
                    reader.begun.extend_from_slice(news);
                    reader.behind = at;
                }
                if part.len() == missing && reader.behind >= at {
                    let bytes = core::mem::take(&mut reader.begun);
                    if bytes.len() == whole {
                        let bytes = Arc::new(bytes);
                        if index == wanted {
                            found = Some(bytes.clone());
                        }
                        self.keep_chunk(index, bytes);
                    }
                }
            }
        }
        found.ok_or_else(|| damaged("the compressed data does not fit its index"))
    }

    /// Where a decoder has come to its end, opens the one that follows. Every end lies behind the
    /// one before, or the index is damaged and would lead in circles.
    fn go_on(&self, reader: &mut Reader) -> Result<()> {
        let at = reader.decoder.position();
        if reader.decoder.ended() {
            let point = self.opener.find(at)?;
            reader.decoder = self.opener.open(&*self.raw, &point)?;
            if reader.ended_at >= at || reader.decoder.ended() {
                return Err(damaged("the compressed data does not fit its index"));
            }
            reader.ended_at = at;
        }
        Ok(())
    }

    fn keep_chunk(&self, index: u64, bytes: Arc<Vec<u8>>) {
        let kept = &mut *self.kept.lock();
        kept.clock += 1;
        let used = kept.clock;
        let chunk = Chunk { index, used, bytes };
        if let Some(same) = kept.chunks.iter_mut().find(|chunk| chunk.index == index) {
            *same = chunk;
        } else if kept.chunks.len() < self.chunks {
            kept.chunks.push(chunk);
        } else if let Some(oldest) = kept.chunks.iter_mut().min_by_key(|chunk| chunk.used) {
            *oldest = chunk;
        }
    }
}

struct CheckpointTable(Checkpoints);

impl Opener for CheckpointTable {
    fn plain_len(&self) -> u64 {
        self.0.plain_len()
    }

    fn find(&self, plain: u64) -> Result<Point> {
        let (_, mut point) = self.0.find(plain)?;
        if !matches!(self.0.format(), Format::Gzip | Format::Bzip2) && point.kind == STRETCH {
            // Behind the stored chunks decoding starts where the stretch does.
            point.plain = point.plain.min(point.extra);
        }
        Ok(point)
    }

    fn open(&self, raw: &dyn Bytes, point: &Point) -> Result<Box<dyn Decoder>> {
        match self.0.format() {
            Format::Gzip => Ok(Box::new(Gzip::open(raw, &self.0, point)?)),
            Format::Bzip2 => Ok(Box::new(Bzip2::open(raw, point)?)),
            _ if point.kind == CHUNK_HERE => {
                let (index, point) = self.0.find(point.plain)?;
                Ok(Box::new(Spooled::open(&self.0, index, &point)))
            }
            Format::Zstd => Ok(Box::new(Zstd::open(raw, point))),
            Format::Xz => Ok(Box::new(xz::open(&self.0, point)?)),
            Format::Lzip => Ok(Box::new(lzip::open(raw, &self.0, point)?)),
            Format::SevenZip => folders::open(&self.0, point),
            Format::Lzma => Ok(Box::new(alone::open(raw)?)),
            Format::Compress => Ok(Box::new(Compress::open(raw)?)),
        }
    }
}

/// A compressed file with its seek table.
pub struct Stream(Cached<CheckpointTable>);

impl Stream {
    /// Takes a compressed file and the table that [`super::build`] made of it. Nothing is read yet.
    /// `EIO` when the table is of another format.
    pub fn open(format: Format, raw: Arc<dyn Bytes>, checkpoints: Checkpoints) -> Result<Self> {
        if checkpoints.format() != format {
            return Err(damaged("the index is of another format"));
        }
        Ok(Self(Cached::new(raw, CheckpointTable(checkpoints), CHUNKS)))
    }

    /// Length of the plain data, bytes.
    pub fn plain_len(&self) -> u64 {
        self.0.opener().plain_len()
    }

    /// Reads plain bytes from `offset` on into `out` until it is full or the data ends, and returns
    /// how many: 0 only at or past the end, or when nothing is wanted. `EIO` with a cause when the
    /// data is damaged; an error after some bytes is a short read.
    pub fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.0.read_at(offset, out)
    }
}
