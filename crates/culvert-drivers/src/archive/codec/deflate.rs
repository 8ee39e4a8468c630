//! Bare deflate and deflate64, as zip members have it.

use super::{
    decoder::Decoder,
    inflate::{HISTORY, Inflate, Pause, window::Window},
    input::Input,
};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, vec::Vec};
use culvert::{Result, sync::Mutex};

/// Plain bytes decoded at once.
const PIECE: usize = 128 << 10;
/// Sets of buffers kept for the next member, 250 KiB each: making and touching them anew would take longer than a small member does.
const KEPT: usize = 4;

/// What a decoder works with.
struct Parts {
    input: Input,
    inflate: Inflate,
    window: Window,
}

static POOL: Mutex<Vec<Box<Parts>>> = Mutex::new(Vec::new());

/// Decodes one deflate stream from its start.
pub struct Deflate {
    /// None only while it is dropped.
    parts: Option<Box<Parts>>,
    plain: u64,
    ended: bool,
    deflate64: bool,
}

impl Deflate {
    /// The stream at `start..end` of the archive.
    pub fn new(start: u64, end: u64, deflate64: bool) -> Self {
        let kept = match deflate64 {
            true => None,
            false => POOL.lock().pop(),
        };
        let mut parts = kept.unwrap_or_else(|| {
            Box::new(Parts {
                input: Input::new(0, u64::MAX),
                inflate: Inflate::new(deflate64),
                window: Window::new(HISTORY[usize::from(deflate64)], PIECE),
            })
        });
        parts.input.restart(start, end);
        parts.inflate.restart();
        parts.window.reset(&[]);
        Self {
            parts: Some(parts),
            plain: 0,
            ended: false,
            deflate64,
        }
    }
}

impl Drop for Deflate {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take()
            && !self.deflate64
        {
            let mut pool = POOL.lock();
            if pool.len() < KEPT {
                pool.push(parts);
            }
        }
    }
}

impl Decoder for Deflate {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let Some(parts) = &mut self.parts else {
            return Ok(&[]);
        };
        if !self.ended {
            let limit = parts.window.make_room(wanted.clamp(1, PIECE));
            let pause = parts
                .inflate
                .run(&mut parts.input, raw, &mut parts.window, limit)?;
            self.ended = pause == Pause::End;
            self.plain += parts.window.fresh() as u64;
        }
        Ok(parts.window.hand_out())
    }

    fn memory(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| {
            parts.input.memory() + parts.window.memory() + parts.inflate.memory()
        })
    }
}
