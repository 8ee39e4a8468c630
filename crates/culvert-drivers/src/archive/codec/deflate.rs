//! Bare deflate and deflate64, as zip members have it.

use super::{
    decoder::Decoder,
    inflate::{HISTORY, Inflate, Pause, window::Window},
    input::Input,
};
use crate::archive::bytes::Bytes;
use culvert::Result;

/// Plain bytes decoded at once.
const PIECE: usize = 128 << 10;

/// Decodes one deflate stream from its start.
pub struct Deflate {
    input: Input,
    inflate: Inflate,
    window: Window,
    plain: u64,
    ended: bool,
}

impl Deflate {
    /// The stream at `start..end` of the archive. Buffers are no larger than `plain_len` needs.
    pub fn new(start: u64, end: u64, plain_len: u64, deflate64: bool) -> Self {
        let small = |limit: usize| usize::try_from(plain_len).map_or(limit, |n| n.min(limit));
        Self {
            input: Input::new(start, end),
            inflate: Inflate::new(deflate64),
            window: Window::new(small(HISTORY[usize::from(deflate64)]), small(PIECE)),
            plain: 0,
            ended: false,
        }
    }
}

impl Decoder for Deflate {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        if !self.ended {
            let limit = self.window.make_room(wanted.clamp(1, PIECE));
            let pause = self
                .inflate
                .run(&mut self.input, raw, &mut self.window, limit)?;
            self.ended = pause == Pause::End;
            self.plain += self.window.fresh() as u64;
        }
        Ok(self.window.hand_out())
    }

    fn memory(&self) -> usize {
        self.input.memory() + self.window.memory() + self.inflate.memory()
    }
}
