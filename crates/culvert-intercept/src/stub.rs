//! The code that a rewritten site jumps to.
//!
//! A stub has rcx and r11 to itself, as the system call destroys both. It writes no other register
//! but rax where the number is part of the moved instructions, no memory and no flags: hence lea
//! for subtractions and jrcxz for tests. The fast way through never leaves it:
//!
//! ```text
//!         moved instructions before the syscall, or mov $number,%eax
//! restart:
//!         filter: is this call interesting? else forward       (nothing, for calls that always are)
//! slow:   lea   record(%rip),%r11
//!         jmp   *entry
//! forward:
//!         jmp   the site's own syscall                         (when it stayed in its place)
//!    or:  syscall; resume: moved instructions behind it; jmp behind the region
//! ```

pub use crate::site::OutOfReach;
use crate::site::{Places, SiteRecord};
use crate::sites::{JUMP, Kind, REGION, SYSCALL, Site};
use crate::{Interest, descriptors};

/// More than any stub takes.
pub const LONGEST: usize = 224;

/// Where stubs find what they refer to in this process: three words, each of which holds an
/// address.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Where the slow path goes on.
    entry: u64,
    /// A byte for each value of the low 16 bits of a descriptor: [`crate::descriptors::FOREIGN`] or
    /// something else.
    descriptors: u64,
    /// An [`Interest`] for each number below 512.
    numbers: u64,
    /// They lie at these addresses in each process, wherever the stubs lie; else in rel32 reach.
    fixed: bool,
}

impl Slots {
    /// Bytes of the words.
    pub const SIZE: usize = 3 * size_of::<u64>();

    /// The words one after the other from `address` on, in the order of the fields; in rel32 reach
    /// of the stubs, and at the same distance wherever those lie.
    pub fn near(address: u64) -> Self {
        Self {
            entry: address,
            descriptors: address + 8,
            numbers: address + 16,
            fixed: false,
        }
    }

    /// The same, at this very address wherever the stubs lie.
    pub fn fixed(address: u64) -> Self {
        Self {
            fixed: true,
            ..Self::near(address)
        }
    }
}

/// The displacement from the end of an instruction to `to`.
pub(crate) fn displacement(end: u64, to: u64) -> Result<[u8; 4], OutOfReach> {
    let distance = i32::try_from(to.wrapping_sub(end) as i64).map_err(|_| OutOfReach)?;
    Ok(distance.to_le_bytes())
}

/// Machine code that is being written for the address `base`.
struct Assembler {
    code: [u8; LONGEST],
    length: usize,
    base: u64,
}

impl Assembler {
    fn here(&self) -> u64 {
        self.base + self.length as u64
    }

    /// Appends; [`LONGEST`] has room for all that a site can need.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.code.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
        }
        debug_assert!(end <= LONGEST);
        self.length = end;
    }

    /// An opcode and the 4-byte displacement that ends the instruction.
    fn relative(&mut self, opcode: &[u8], to: u64) -> Result<(), OutOfReach> {
        let end = self.here() + opcode.len() as u64 + 4;
        let field = displacement(end, to)?;
        self.put(opcode);
        self.put(&field);
        Ok(())
    }

    /// `jmp to`
    fn jump(&mut self, to: u64) -> Result<(), OutOfReach> {
        self.relative(&[0xe9], to)
    }

    /// A one-byte opcode and a displacement to be set by [`Self::land`].
    fn short(&mut self, opcode: u8) -> usize {
        self.put(&[opcode, 0]);
        self.length
    }

    /// Lets the short jump that ends at `end` lead here. All distances in a stub are below 128: its
    /// filter takes at most 109 bytes.
    fn land(&mut self, end: usize) {
        let distance = self.length - end;
        debug_assert!(distance < 128);
        if let Some(field) = self.code.get_mut(end - 1) {
            *field = distance as u8;
        }
    }

    /// `mov slot(%rip),%r11`; or `movabs $slot,%r11; mov (%r11),%r11`.
    fn load_r11(&mut self, slots: &Slots, slot: u64) -> Result<(), OutOfReach> {
        if !slots.fixed {
            return self.relative(&[0x4c, 0x8b, 0x1d], slot);
        }
        self.put(&[0x49, 0xbb]);
        self.put(&slot.to_le_bytes());
        self.put(&[0x4d, 0x8b, 0x1b]);
        Ok(())
    }

    /// `jmp *entry(%rip)`; or `movabs $entry,%rcx; jmp *(%rcx)`.
    fn enter(&mut self, slots: &Slots) -> Result<(), OutOfReach> {
        if !slots.fixed {
            return self.relative(&[0xff, 0x25], slots.entry);
        }
        self.put(&[0x48, 0xb9]);
        self.put(&slots.entry.to_le_bytes());
        self.put(&[0xff, 0x21]);
        Ok(())
    }

    /// `movzbl (%r11,%rcx),%ecx`
    fn look_up(&mut self) {
        self.put(&[0x41, 0x0f, 0xb6, 0x0c, 0x0b]);
    }

    /// `lea -1(%rcx),%ecx`: the upper half of rcx becomes 0. Flags stay.
    fn decrement(&mut self) {
        self.subtract(1);
    }

    /// `lea -what(%rcx),%ecx`, for up to 128.
    fn subtract(&mut self, what: u8) {
        self.put(&[0x8d, 0x49, what.wrapping_neg()]);
    }

    /// `movzwl` of an argument's low 16 bits to ecx, then its class minus
    /// [`crate::descriptors::FOREIGN`] (1); a jump that is taken when that is 0.
    fn test_descriptor(&mut self, argument: Argument) -> usize {
        self.put(&[0x0f, 0xb7, argument as u8]);
        self.look_up();
        self.decrement();
        self.short(JRCXZ)
    }

    /// Behind [`Assembler::test_descriptor`], which has not jumped: a jump that is taken when the
    /// class is [`crate::descriptors::BYTES`].
    fn test_bytes(&mut self) -> usize {
        self.subtract(descriptors::BYTES - descriptors::FOREIGN);
        self.short(JRCXZ)
    }
}

const JRCXZ: u8 = 0xe3;
const SHORT_JUMP: u8 = 0xeb;

/// The ModRM byte that reads an argument's register into ecx.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Argument {
    Rdi = 0xcf,
    Rsi = 0xce,
    Rdx = 0xca,
}

/// Short jumps that are to lead to one place: where they end.
#[derive(Default)]
struct Jumps([Option<usize>; 4]);

impl Jumps {
    fn push(&mut self, end: usize) {
        if let Some(free) = self.0.iter_mut().find(|jump| jump.is_none()) {
            *free = Some(end);
        }
    }

    fn land(self, out: &mut Assembler) {
        self.0.into_iter().flatten().for_each(|end| out.land(end));
    }
}

/// The short jumps out of a filter.
#[derive(Default)]
struct Exits {
    slow: Jumps,
    forward: Jumps,
}

/// Writes the filter; falling out of it means slow.
fn filter(
    out: &mut Assembler,
    number: i32,
    interest: Interest,
    slots: &Slots,
) -> Result<Exits, OutOfReach> {
    let mut exits = Exits::default();
    if number < 0 {
        any_number(out, slots, &mut exits)?;
        return Ok(exits);
    }
    let second = match interest {
        Interest::Never | Interest::Always => return Ok(exits),
        Interest::Descriptor0 | Interest::Bytes0 => None,
        Interest::Bytes01 => Some(Argument::Rsi),
        Interest::Bytes02 => Some(Argument::Rdx),
    };
    let of_bytes = interest != Interest::Descriptor0;
    out.load_r11(slots, slots.descriptors)?;
    let kernels = test(out, Argument::Rdi, of_bytes);
    match second {
        None => kernels.for_each(|jump| exits.forward.push(jump)),
        Some(second) => {
            exits.slow.push(out.short(SHORT_JUMP));
            kernels.for_each(|jump| out.land(jump));
            test(out, second, of_bytes).for_each(|jump| exits.forward.push(jump));
        }
    }
    Ok(exits)
}

/// The jumps that are taken when the descriptor in `argument` is the kernel's, or, for a call
/// `of_bytes`, its file's bytes are.
fn test(
    out: &mut Assembler,
    argument: Argument,
    of_bytes: bool,
) -> impl Iterator<Item = usize> + use<> {
    let foreign = out.test_descriptor(argument);
    let bytes = of_bytes.then(|| out.test_bytes());
    [Some(foreign), bytes].into_iter().flatten()
}

/// The filter where only eax knows the number: bits 8 to 15 must be 0 or 1, then the byte for the
/// number decides. Higher bits (x32, or nonsense) are left to the entry.
fn any_number(out: &mut Assembler, slots: &Slots, exits: &mut Exits) -> Result<(), OutOfReach> {
    out.load_r11(slots, slots.numbers)?;
    out.put(&[0x0f, 0xb6, 0xcc]); // movzbl %ah,%ecx
    let low = out.short(JRCXZ);
    out.decrement();
    let high = out.short(JRCXZ);
    exits.forward.push(out.short(SHORT_JUMP));
    out.land(high);
    out.put(&[0x4d, 0x8d, 0x9b, 0, 1, 0, 0]); // lea 256(%r11),%r11
    out.land(low);
    out.put(&[0x0f, 0xb6, 0xc8]); // movzbl %al,%ecx
    out.look_up();
    exits.forward.push(out.short(JRCXZ)); // Never
    out.decrement();
    exits.slow.push(out.short(JRCXZ)); // Always
    out.decrement();
    let first = out.short(JRCXZ); // Descriptor0
    out.decrement();
    let bytes = out.short(JRCXZ); // Bytes0, of whose second class the entry knows
    exits.slow.push(out.short(SHORT_JUMP)); // the entry looks at both descriptors
    out.land(first);
    out.land(bytes);
    out.load_r11(slots, slots.descriptors)?;
    exits.forward.push(out.test_descriptor(Argument::Rdi));
    Ok(())
}

/// A stub.
#[derive(Clone, Copy, Debug)]
pub struct Stub {
    code: [u8; LONGEST],
    length: usize,
    /// The places that it tells the entry.
    pub places: Places,
    /// The bytes of its record.
    pub record: [u8; SiteRecord::SIZE],
}

impl Stub {
    /// Its machine code.
    pub fn code(&self) -> &[u8] {
        self.code.get(..self.length).unwrap_or_default()
    }
}

/// The stub of `site` for the address `at`. `record` is where its record will be.
pub fn emit(
    site: &Site,
    bias: u64,
    interest: Interest,
    slots: &Slots,
    at: u64,
    record: u64,
) -> Result<Stub, OutOfReach> {
    let mut out = Assembler {
        code: [0xcc; LONGEST],
        length: 0,
        base: at,
    };
    let places = write(&mut out, site, bias, interest, slots, record)?;
    let record = SiteRecord::new(record, &places, site.number)?.to_bytes();
    let Assembler { code, length, .. } = out;
    // A damaged table could name instructions that take more.
    if length <= LONGEST {
        Ok(Stub {
            code,
            length,
            places,
            record,
        })
    } else {
        Err(OutOfReach)
    }
}

fn write(
    out: &mut Assembler,
    site: &Site,
    bias: u64,
    interest: Interest,
    slots: &Slots,
    record: u64,
) -> Result<Places, OutOfReach> {
    let syscall = site.address.wrapping_add(bias);
    let start = site.start().wrapping_add(bias);
    let behind_region = start + u64::from(site.length);
    let mut moved = Moved::of(site, start);

    moved.before(out, syscall)?;
    let restart = match site.kind {
        // The program's own bytes: loading the number twice does no harm.
        Kind::Mov => start,
        Kind::Next | Kind::Island | Kind::Trap => syscall,
        // What was moved here need not be repeatable.
        Kind::Before | Kind::Around => out.here(),
    };
    let exits = filter(out, site.number, interest, slots)?;
    exits.slow.land(out);
    out.relative(&[0x4c, 0x8d, 0x1d], record)?; // lea record(%rip),%r11
    out.enter(slots)?;
    exits.forward.land(out);
    let (forward, resume) = if site.keeps_syscall() {
        out.jump(syscall)?;
        (syscall, syscall + SYSCALL.len() as u64)
    } else {
        let forward = out.here();
        out.put(&SYSCALL);
        let resume = out.here();
        if !moved.after(out)? {
            out.jump(behind_region)?;
        }
        (forward, resume)
    };
    Ok(Places {
        resume,
        forward,
        instruction: syscall,
        restart,
    })
}

/// The instructions of a region, in order.
struct Moved<'a> {
    bytes: &'a [u8],
    pieces: core::slice::Iter<'a, u8>,
    address: u64,
}

impl<'a> Moved<'a> {
    fn of(site: &'a Site, address: u64) -> Self {
        let bytes = site.region();
        let pieces = site.pieces.iter();
        Self {
            bytes,
            pieces,
            address,
        }
    }

    /// The next instruction, its address and the offset of its displacement.
    fn next(&mut self) -> Option<(&'a [u8], u64, usize)> {
        let piece = *self.pieces.next().filter(|piece| **piece != 0)?;
        let (instruction, rest) = self.bytes.split_at_checked(usize::from(piece & 15))?;
        let address = self.address;
        self.bytes = rest;
        self.address += instruction.len() as u64;
        Some((instruction, address, usize::from(piece >> 4)))
    }

    /// Writes everything before the `syscall` at address `until`, and skips that.
    fn before(&mut self, out: &mut Assembler, until: u64) -> Result<(), OutOfReach> {
        while self.address < until {
            let Some((instruction, address, field)) = self.next() else {
                break;
            };
            relocate(out, instruction, address, field)?;
        }
        if self.address == until {
            let _syscall = self.next();
        }
        Ok(())
    }

    /// Writes everything behind the `syscall`. True when control never comes out at the end.
    fn after(&mut self, out: &mut Assembler) -> Result<bool, OutOfReach> {
        let mut ended = false;
        while let Some((instruction, address, field)) = self.next() {
            relocate(out, instruction, address, field)?;
            // jmp; ret; jmp *... are only ever the last (see classify). Recognised by what they
            // leave unused: nothing follows them in the list.
            ended = matches!(
                instruction,
                [0xeb | 0xe9 | 0xc3 | 0xc2, ..] | [0xf2 | 0xf3, 0xc3]
            );
        }
        Ok(ended)
    }
}

/// Writes an instruction that came from `address` so that it does the same here. Jumps become their
/// long forms.
fn relocate(
    out: &mut Assembler,
    instruction: &[u8],
    address: u64,
    field: usize,
) -> Result<(), OutOfReach> {
    let end = address + instruction.len() as u64;
    let target = |displacement: i32| end.wrapping_add_signed(displacement.into());
    match *instruction {
        [0xeb, to] => out.jump(target((to as i8).into())),
        [0xe9, a, b, c, d] => out.jump(target(i32::from_le_bytes([a, b, c, d]))),
        [opcode @ 0x70..=0x7f, to] => {
            out.relative(&[0x0f, opcode + 0x10], target((to as i8).into()))
        }
        [0x0f, opcode @ 0x80..=0x8f, a, b, c, d] => {
            out.relative(&[0x0f, opcode], target(i32::from_le_bytes([a, b, c, d])))
        }
        _ => {
            let here = out.here();
            let mut moved = [0; 15];
            let Some(moved) = moved.get_mut(..instruction.len()) else {
                return Err(OutOfReach);
            };
            moved.copy_from_slice(instruction);
            if field != 0 {
                let Some(old) = crate::elf::word(instruction, field) else {
                    return Err(OutOfReach);
                };
                let new = displacement(here + instruction.len() as u64, target(old as i32))?;
                if let Some(place) = moved.get_mut(field..field + 4) {
                    place.copy_from_slice(&new);
                }
            }
            out.put(moved);
            Ok(())
        }
    }
}

/// New bytes for a place in the program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The address.
    pub address: u64,
    new: [u8; REGION],
    length: usize,
}

impl Edit {
    /// At most [`REGION`] bytes for `address`.
    pub fn new(address: u64, bytes: &[u8]) -> Self {
        let mut new = [0; REGION];
        let length = bytes.len().min(REGION);
        new.iter_mut()
            .zip(bytes)
            .for_each(|(place, byte)| *place = *byte);
        Self {
            address,
            new,
            length,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.new.get(..self.length).unwrap_or_default()
    }

    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.length as u64)
    }
}

/// What is written over the region of `site`, and, second, over its island, to lead to the stub at
/// `stub`.
pub fn edits(site: &Site, bias: u64, stub: u64) -> Result<(Edit, Option<Edit>), OutOfReach> {
    let jump_from = |address: u64| -> Result<[u8; JUMP], OutOfReach> {
        let [a, b, c, d] = displacement(address + JUMP as u64, stub)?;
        Ok([0xe9, a, b, c, d])
    };
    let start = site.start().wrapping_add(bias);
    match site.kind {
        Kind::Trap => Ok((Edit::new(start, &[0x0f, 0x0b]), None)),
        Kind::Island => {
            let island = start.wrapping_add_signed(site.island.into());
            let short = [
                SHORT_JUMP,
                site.island.wrapping_sub(SYSCALL.len() as i8) as u8,
            ];
            Ok((
                Edit::new(start, &short),
                Some(Edit::new(island, &jump_from(island)?)),
            ))
        }
        _ => {
            // int3: nothing leads here, and if something did, it should be loud.
            let mut bytes = [0xcc; REGION];
            if let Some(place) = bytes.first_chunk_mut() {
                *place = jump_from(start)?;
            }
            let length = usize::from(site.length).clamp(JUMP, REGION);
            Ok((
                Edit::new(start, bytes.get(..length).unwrap_or_default()),
                None,
            ))
        }
    }
}
