//! System-call sites of an object are found by decoding functions from their first byte, and
//! classified by how each can be rewritten.
//!
//! A byte pair 0f 05 is only a hint (libcrypto has 53 for one system call). A rewritten range must
//! not be entered in its middle, so the targets of all jumps that may lead near a site are
//! collected first: those of the function itself, jump tables included, and 4-byte displacements
//! everywhere.

use crate::classify::{self, Surroundings};
use crate::elf::{Image, Piece, long, word};
use crate::functions::Functions;
use crate::scan;
use crate::sites::{REGION, SYSCALL, Site};
use alloc::vec::Vec;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// More bytes than hidden functions take between two known ones; beyond that there is no knowing.
const LONGEST_GAP: u64 = 1 << 16;

/// What was found in an object.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The sites, by address.
    pub sites: Vec<Site>,
    /// Byte pairs 0f 05 in the code.
    pub pairs: usize,
    /// Those of them in no known function, where it is not known whether they are system calls, and
    /// system calls with prefixes.
    pub unknown: usize,
}

/// Finds and classifies all sites of an object.
pub fn find(image: &Image<'_>, functions: &Functions<'_>) -> Found {
    let mut found = Found::default();
    let mut finder = Finder::default();
    for piece in image.pieces.iter().filter(|piece| piece.executable) {
        let pairs = scan::pairs(piece.bytes);
        found.pairs += pairs.len();
        if pairs.is_empty() {
            continue;
        }
        let far = far_targets(piece, &pairs);
        let mut after = 0; // pairs below are in functions that have been decoded
        for pair in pairs {
            let address = piece.address + pair as u64;
            if address < after {
                continue;
            }
            let limit = piece.end();
            let function = functions
                .containing(image, address)
                .map(|(start, end)| (start, end, end));
            let Some((start, end, gap)) = function.or_else(|| functions.before_gap(image, address))
            else {
                found.unknown += 1;
                continue;
            };
            let function = (start.max(piece.address), end.min(limit), gap.min(limit));
            after = finder.function(image, piece, functions, &far, function, &mut found.sites);
            if after <= address {
                found.unknown += 1; // decoding lost its way before this pair
            }
            found.unknown += finder.prefixed();
        }
    }
    found.sites.sort_unstable_by_key(|site| site.address);
    found.sites.dedup_by_key(|site| site.address);
    found
}

/// The places within [`REGION`] bytes of a pair to which some 4-byte displacement leads, sorted:
/// link-time addresses.
fn far_targets(piece: &Piece<'_>, pairs: &[usize]) -> Vec<u64> {
    const GRAIN: usize = 64;
    let mut near = alloc::vec![0_u64; piece.bytes.len() / (GRAIN * 64) + 1];
    for pair in pairs {
        for grain in pair.saturating_sub(REGION) / GRAIN..=(pair + REGION) / GRAIN {
            if let Some(bits) = near.get_mut(grain / 64) {
                *bits |= 1 << (grain % 64);
            }
        }
    }
    let mut targets = Vec::new();
    scan::branches(piece.bytes, |target| {
        if let Ok(target) = usize::try_from(target)
            && near
                .get(target / GRAIN / 64)
                .is_some_and(|bits| bits & (1 << (target / GRAIN % 64)) != 0)
        {
            targets.push(piece.address + target as u64);
        }
    });
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// A function under examination; kept to reuse its memory.
#[derive(Default)]
struct Finder {
    instructions: Vec<Instruction>,
    targets: Vec<u64>,
}

impl Finder {
    /// Finds the sites of one function, and of the code up to `gap` when the function's last
    /// instruction leads there. Returns the address up to which it was decoded.
    fn function(
        &mut self,
        image: &Image<'_>,
        piece: &Piece<'_>,
        functions: &Functions<'_>,
        far: &[u64],
        (start, mut end, gap): (u64, u64, u64),
        sites: &mut Vec<Site>,
    ) -> u64 {
        self.decode(piece, start, end);
        let falls_through = |last: &Instruction| last.next_ip() == end && !classify::ends(last);
        let reaches_gap = self.instructions.last().is_some_and(falls_through);
        let is_short = gap.saturating_sub(end) <= LONGEST_GAP;
        if gap > end && is_short && (reaches_gap || functions.has_hidden()) {
            self.decode(piece, start, gap);
            // Hidden functions count only when the decoder arrives at the next known one.
            if reaches_gap
                || self
                    .instructions
                    .last()
                    .is_some_and(|last| last.next_ip() == gap)
            {
                end = gap;
            } else {
                self.instructions.clear();
            }
        }
        self.collect_targets(image, functions, far, start, end);
        let code = Surroundings {
            image,
            piece,
            functions,
            function: (start, end),
            instructions: &self.instructions,
            targets: &self.targets,
        };
        // Those of this function may be there already, when it is decoded again with the gap behind
        // it.
        let first = sites
            .iter()
            .position(|site| site.address >= start)
            .unwrap_or(sites.len());
        let known = sites.get(first..).unwrap_or_default();
        let is_new = |call: &usize| {
            let call = self.instructions.get(*call);
            call.is_some_and(|call| {
                is_syscall(call) && known.iter().all(|site| site.address != call.ip())
            })
        };
        let calls: Vec<usize> = (0..self.instructions.len()).filter(is_new).collect();
        // A mov site changes nothing around it, so these choose first; no region may touch the
        // bytes of another site.
        let movs: Vec<Option<Site>> = calls.iter().map(|call| code.mov(*call)).collect();
        sites.extend(movs.iter().flatten());
        for (call, _) in calls.into_iter().zip(movs).filter(|(_, mov)| mov.is_none()) {
            let site = code.classify(call, sites.get(first..).unwrap_or_default());
            sites.extend(site);
        }
        self.instructions
            .last()
            .map_or(start, |last| last.next_ip())
    }

    /// System calls with superfluous prefixes, which nobody writes and nothing here can rewrite.
    fn prefixed(&self) -> usize {
        let calls = self
            .instructions
            .iter()
            .filter(|instruction| instruction.code() == Code::Syscall);
        calls.filter(|instruction| !is_syscall(instruction)).count()
    }

    fn decode(&mut self, piece: &Piece<'_>, start: u64, end: u64) {
        self.instructions.clear();
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
        let text = piece.tail(start).and_then(|tail| tail.get(..length));
        let mut decoder =
            Decoder::with_ip(64, text.unwrap_or_default(), start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break; // data, or not a function after all
            }
            self.instructions.push(instruction);
        }
    }

    fn collect_targets(
        &mut self,
        image: &Image<'_>,
        functions: &Functions<'_>,
        far: &[u64],
        start: u64,
        end: u64,
    ) {
        self.targets.clear();
        let (low, high) = (
            start.saturating_sub(REGION as u64),
            end.saturating_add(REGION as u64),
        );
        let first = far.partition_point(|target| *target < low);
        self.targets.extend(
            far.get(first..)
                .unwrap_or_default()
                .iter()
                .take_while(|target| **target < high),
        );
        self.targets.extend(functions.listed_between(low, high));
        let mut dispatches = false;
        for instruction in &self.instructions {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Call
                | FlowControl::XbeginXabortXend => {
                    if matches!(
                        instruction.op0_kind(),
                        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
                    ) {
                        self.targets.push(instruction.near_branch_target());
                    }
                }
                FlowControl::IndirectBranch => dispatches = true,
                _ => {}
            }
        }
        if dispatches {
            for instruction in &self.instructions {
                jump_table(image, instruction, start, end, &mut self.targets);
            }
        }
        self.targets.sort_unstable();
        self.targets.dedup();
    }
}

fn is_syscall(instruction: &Instruction) -> bool {
    instruction.code() == Code::Syscall && instruction.len() == SYSCALL.len()
}

/// Appends what a jump table that `instruction` may refer to leads to. Tables are marked neither as
/// such nor with a length, so all entries that lead into the function count: `lea table(%rip)` for
/// 4-byte entries relative to the table, a table at a fixed address for 8-byte ones.
fn jump_table(
    image: &Image<'_>,
    instruction: &Instruction,
    start: u64,
    end: u64,
    targets: &mut Vec<u64>,
) {
    const ENTRIES: usize = 1024;
    let inside = |target: &u64| (start..end).contains(target);
    let has_memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    if !has_memory {
        return;
    }
    let table = instruction.memory_displacement64();
    let Some(entries) = image.tail(table) else {
        return;
    };
    if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
        let (entries, _) = entries.as_chunks::<4>();
        let decoded = entries
            .iter()
            .map(|entry| table.wrapping_add_signed(word(entry, 0).unwrap_or(0) as i32 as i64));
        targets.extend(decoded.take(ENTRIES).filter(inside));
    } else if instruction.memory_index_scale() == 8 && instruction.memory_base() == Register::None {
        let (entries, _) = entries.as_chunks::<8>();
        let decoded = entries
            .iter()
            .map(|entry| long(entry, 0).unwrap_or(0).wrapping_sub(image.bias));
        targets.extend(decoded.take(ENTRIES).filter(inside));
    }
}
