//! Which kind a site is: what can be rewritten there without breaking any way into or through the
//! code.

use crate::elf::{Image, Piece};
use crate::functions::Functions;
use crate::sites::{JUMP, Kind, MOVED, SYSCALL, Site};
use culvert_sys::nr;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register,
};

/// A decoded function, and what is known about the code around it.
pub(crate) struct Surroundings<'a> {
    pub image: &'a Image<'a>,
    pub piece: &'a Piece<'a>,
    pub functions: &'a Functions<'a>,
    /// Start and end.
    pub function: (u64, u64),
    /// Without gaps.
    pub instructions: &'a [Instruction],
    /// Where jumps lead, sorted.
    pub targets: &'a [u64],
}

/// The bytes that must not change any more because `site` uses them, as up to two ranges of
/// addresses.
fn used(site: &Site) -> [(u64, u64); 2] {
    let end = (site.start() + u64::from(site.length)).max(site.address + SYSCALL.len() as u64);
    let island = site.address.wrapping_add_signed(site.island.into());
    let island_end = if site.kind == Kind::Island {
        island + JUMP as u64
    } else {
        island
    };
    [(site.start(), end), (island, island_end)]
}

impl Surroundings<'_> {
    /// Whether a jump leads to an address in `from..to`.
    fn entered(&self, from: u64, to: u64) -> bool {
        let first = self.targets.partition_point(|target| *target < from);
        self.targets.get(first).is_some_and(|target| *target < to)
    }

    fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.piece.tail(address)?.get(..length)
    }

    /// The instruction as an entry of [`Site::pieces`], when it does the same from another place.
    fn movable(&self, instruction: &Instruction) -> Option<u8> {
        let bytes = self.bytes(instruction.ip(), instruction.len())?;
        match (instruction.flow_control(), bytes) {
            // An indirect call may have to lead to it (CET).
            (FlowControl::Next, _)
                if matches!(instruction.code(), Code::Endbr64 | Code::Endbr32) =>
            {
                return None;
            }
            (FlowControl::Next | FlowControl::IndirectBranch | FlowControl::Return, _) => {}
            // Only without prefixes: the displacement is written anew. loop and jrcxz have no long
            // form.
            (
                FlowControl::ConditionalBranch,
                [0x70..=0x7f, _] | [0x0f, 0x80..=0x8f, _, _, _, _],
            ) => {}
            (FlowControl::UnconditionalBranch, [0xeb, _] | [0xe9, _, _, _, _]) => {}
            // A call would push an address in the stub, where no unwinder finds its way.
            _ => return None,
        }
        let mut displacement = 0;
        if instruction.is_ip_rel_memory_operand() {
            let mut decoder = Decoder::with_ip(64, bytes, instruction.ip(), DecoderOptions::NONE);
            let again = decoder.decode();
            let offsets = decoder.get_constant_offsets(&again);
            if instruction.memory_base() != Register::RIP || offsets.displacement_size() != 4 {
                return None; // relative to eip
            }
            displacement = u8::try_from(offsets.displacement_offset())
                .ok()
                .filter(|at| *at < 16)?;
        }
        Some(displacement << 4 | bytes.len() as u8)
    }

    /// The system-call number that reaches instruction `call`, or -1.
    fn number(&self, call: usize) -> i32 {
        // Unwinders and gdb know the return from signal handlers by these bytes, and so do we,
        // whatever the decoder made of them.
        // mov $15,%rax; syscall
        const RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
        let address = self
            .instructions
            .get(call)
            .map_or(0, |instruction| instruction.ip());
        if address
            .checked_sub(7)
            .and_then(|start| self.bytes(start, 9))
            == Some(&RESTORER)
        {
            return nr::RT_SIGRETURN as i32;
        }
        let mut factory = InstructionInfoFactory::new();
        let mut later = call;
        loop {
            let (Some(here), Some(previous)) = (self.instructions.get(later), later.checked_sub(1))
            else {
                return -1;
            };
            if self.entered(here.ip(), here.ip() + 1) {
                return -1; // another way leads here, with another number perhaps
            }
            let Some(instruction) = self.instructions.get(previous) else {
                return -1;
            };
            if !matches!(
                instruction.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            ) {
                return -1;
            }
            let writes = |access| {
                !matches!(
                    access,
                    OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
                )
            };
            let mut registers = factory.info(instruction).used_registers().iter();
            if registers.any(|used| {
                used.register().full_register() == Register::RAX && writes(used.access())
            }) {
                return constant(instruction).unwrap_or(-1);
            }
            later = previous;
        }
    }

    fn site(&self, call: usize, kind: Kind) -> Option<Site> {
        let instruction = self.instructions.get(call)?;
        Some(Site::new(instruction.ip(), self.number(call), kind))
    }

    /// Instruction `call` as a [`Kind::Mov`] site: `b8 imm32 0f 05`, entered only at the mov.
    ///
    /// Before: `b8 n n n n | 0f 05`, after: `e9 r r r r | 0f 05`. The jump has the mov's length and
    /// place, so every instruction boundary is still one; who jumps to the mov reaches the stub,
    /// which loads the number itself; nobody jumps to the `syscall`, which is reached from the stub
    /// alone.
    pub fn mov(&self, call: usize) -> Option<Site> {
        let mov = self.instructions.get(call.checked_sub(1)?)?;
        let mut site = self.site(call, Kind::Mov)?;
        if mov.code() != Code::Mov_r32_imm32
            || mov.op0_register() != Register::EAX
            || mov.len() != JUMP
            || self.entered(mov.ip() + 1, site.address + 1)
        {
            return None;
        }
        site.before = JUMP as u8;
        self.fill(&mut site, call - 1, call, JUMP as u64)
    }

    /// Instruction `call` as the best kind other than [`Kind::Mov`]; no byte that one of `taken`
    /// uses is touched.
    pub fn classify(&self, call: usize, taken: &[Site]) -> Option<Site> {
        let free = |site: &Site| {
            let crosses = |(from, to): (u64, u64)| {
                let mut others = taken.iter().flat_map(used);
                others.any(|(start, end)| from < end && start < to)
            };
            !used(site).into_iter().any(crosses)
        };
        let kinds = [Self::before, Self::next, Self::around];
        let found = kinds
            .into_iter()
            .find_map(|kind| kind(self, call).filter(free));
        found.or_else(|| self.island(call, free)).or_else(|| {
            let mut site = self.site(call, Kind::Trap)?;
            self.fill(&mut site, call, call + 1, SYSCALL.len() as u64)
        })
    }

    /// Before: `p... | 0f 05` with p one or more whole instructions of five bytes or more; after:
    /// `e9 r r r r cc... | 0f 05`, and the stub executes p. Entered only at the first byte of p, so
    /// p and the `syscall` were always executed together.
    fn before(&self, call: usize) -> Option<Site> {
        let site = self.site(call, Kind::Before)?;
        let mut first = call;
        loop {
            first = first.checked_sub(1)?;
            let instruction = self.instructions.get(first)?;
            self.movable(instruction).filter(|_| !ends(instruction))?;
            let length = site.address - instruction.ip();
            if length >= JUMP as u64 {
                let before = u8::try_from(length).ok()?;
                return self.fill(&mut Site { before, ..site }, first, call, length);
            }
        }
    }

    /// Before: `0f 05 n...` with n whole instructions; after: `e9 r r r r cc...`, and the stub
    /// executes the `syscall` and n. Entered only at the `syscall`.
    fn next(&self, call: usize) -> Option<Site> {
        self.after(call, call, Kind::Next)
    }

    /// Before: `p... 0f 05 n...`; after: `e9 r r r r cc...`. Entered only at p.
    fn around(&self, call: usize) -> Option<Site> {
        let mut first = call;
        loop {
            first = first.checked_sub(1)?;
            let instruction = self.instructions.get(first)?;
            self.movable(instruction).filter(|_| !ends(instruction))?;
            if let Some(site) = self.after(first, call, Kind::Around) {
                return Some(site);
            }
        }
    }

    /// The region from instruction `first` over `call` to as many instructions behind as make room
    /// for a jump. Behind a `ret` or `jmp` padding may follow.
    fn after(&self, first: usize, call: usize, kind: Kind) -> Option<Site> {
        let mut site = self.site(call, kind)?;
        let start = self.instructions.get(first)?.ip();
        site.before = u8::try_from(site.address - start).ok()?;
        let mut end = call;
        let mut length = site.address + SYSCALL.len() as u64 - start;
        while length < JUMP as u64 {
            end += 1;
            let instruction = self.instructions.get(end)?;
            self.movable(instruction)?;
            length = instruction.next_ip() - start;
            if length < JUMP as u64 && ends(instruction) {
                if !self.is_padding(instruction.next_ip(), JUMP as u64 - length) {
                    return None;
                }
                length = JUMP as u64;
            }
        }
        self.fill(&mut site, first, end + 1, length)
    }

    /// Whether at least `length` bytes at `address`, which follows the end of a flow of control,
    /// are never executed.
    fn is_padding(&self, address: u64, length: u64) -> bool {
        let mut at = address;
        while at < address + length {
            let inside = self.functions.containing(self.image, at);
            if inside.is_some_and(|function| function != self.function) {
                return false;
            }
            let text = self.piece.tail(at).unwrap_or_default();
            let instruction = Decoder::with_ip(64, text, at, DecoderOptions::NONE).decode();
            if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
                || self.entered(at, instruction.next_ip())
            {
                return false;
            }
            at = instruction.next_ip();
        }
        true
    }

    /// Before: `0f 05`, and within reach of a short jump five bytes of padding; after: `eb d`, and
    /// `e9 r r r r` there.
    fn island(&self, call: usize, free: impl Fn(&Site) -> bool) -> Option<Site> {
        let mut site = self.site(call, Kind::Island)?;
        let site = self.fill(&mut site, call, call + 1, SYSCALL.len() as u64)?;
        for instruction in self
            .instructions
            .iter()
            .filter(|instruction| ends(instruction))
        {
            let padding = instruction.next_ip();
            // The displacement counts from the end of the short jump.
            let distance = padding.wrapping_sub(site.address) as i64;
            if i8::try_from(distance - SYSCALL.len() as i64).is_err()
                || !self.is_padding(padding, JUMP as u64)
            {
                continue;
            }
            let mut site = site;
            site.island = i8::try_from(distance).ok()?;
            site.bytes
                .get_mut(SYSCALL.len()..SYSCALL.len() + JUMP)?
                .copy_from_slice(self.bytes(padding, JUMP)?);
            if free(&site) {
                return Some(site);
            }
        }
        None
    }

    /// Records the region of `length` bytes that begins with instruction `first`, and the
    /// instructions from there to before `end`. `None` when there are too many or when a jump leads
    /// behind the region's first byte.
    fn fill(&self, site: &mut Site, first: usize, end: usize, length: u64) -> Option<Site> {
        let start = site.start();
        site.length = u8::try_from(length).ok()?;
        let last = if site.keeps_syscall() {
            site.address + 1
        } else {
            start + length
        };
        if self.entered(start + 1, last) {
            return None;
        }
        let bytes = self.bytes(start, usize::from(site.length))?;
        site.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let instructions = self.instructions.get(first..end)?;
        if instructions.len() > MOVED {
            return None;
        }
        for (piece, instruction) in site.pieces.iter_mut().zip(instructions) {
            *piece = match instruction.code() {
                Code::Syscall => SYSCALL.len() as u8,
                _ => self.movable(instruction)?,
            };
        }
        Some(*site)
    }
}

/// Whether nothing behind the instruction is executed after it.
pub(crate) fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// The value that the instruction gives rax, when it is always the same and a positive `int`.
fn constant(instruction: &Instruction) -> Option<i32> {
    let value = match instruction.code() {
        Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 => {
            instruction.immediate(1)
        }
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32
            if instruction.op0_register() == instruction.op1_register() =>
        {
            0
        }
        _ => return None,
    };
    let whole = instruction.op0_register().full_register() == Register::RAX;
    i32::try_from(value).ok().filter(|_| whole)
}
