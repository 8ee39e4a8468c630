//! A chunk: the stubs of one object with their records, and what is changed in the object's code so
//! that it leads to them.
//!
//! All is relative to the object or to the chunk itself. The same bytes serve wherever the object
//! is mapped, as long as the chunk lies at the same distance from it, and its slots there, too, or
//! where they lie in each process.

use crate::sites::{JUMP, Kind, REGION, SYSCALL, Site};
use crate::stub::{self, Edit, OutOfReach, Slots};
use crate::{Interest, SiteRecord};
use alloc::vec::Vec;
use culvert_sys::plain::{Packed, Plain};

/// The beginning of a chunk. Records, changes, traps and stubs follow, in this order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Bytes of the whole chunk.
    size: u32,
    records: u32,
    changes: u32,
    traps: u32,
}

// SAFETY: words.
unsafe impl Plain for Header {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Header {}

/// New bytes for a place in the object's code.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// The link-time address.
    address: u64,
    length: u32,
    old: [u8; REGION],
    new: [u8; REGION],
    zero: u32,
}

// SAFETY: words and bytes.
unsafe impl Plain for Change {}
// SAFETY: words and bytes, and nothing between them: 8 + 4 + 20 + 20 + 4.
unsafe impl Packed for Change {}

impl Change {
    fn new(edit: &Edit, bias: u64, old: &[u8]) -> Self {
        let padded = |bytes: &[u8]| {
            let mut all = [0; REGION];
            all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            all
        };
        Self {
            address: edit.address.wrapping_sub(bias),
            length: edit.bytes().len() as u32,
            old: padded(old),
            new: padded(edit.bytes()),
            zero: 0,
        }
    }

    /// The first address.
    pub fn start(&self, bias: u64) -> u64 {
        self.address.wrapping_add(bias)
    }

    /// The first address behind it.
    pub fn end(&self, bias: u64) -> u64 {
        self.start(bias).saturating_add(self.length.into())
    }

    /// What the object's file has there.
    pub fn old(&self) -> &[u8] {
        self.old.get(..self.length as usize).unwrap_or_default()
    }

    /// What is written there.
    pub fn new_bytes(&self) -> &[u8] {
        self.new.get(..self.length as usize).unwrap_or_default()
    }
}

/// A site that becomes `ud2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Trap {
    /// Its link-time address.
    address: u64,
    /// The index of its record.
    record: u64,
}

// SAFETY: words.
unsafe impl Plain for Trap {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Trap {}

/// A chunk that has been written.
pub(crate) struct Written {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The kinds of the sites that have a stub.
    pub kinds: Vec<Kind>,
    /// Sites that have none, as what they refer to lies out of reach.
    pub out_of_reach: usize,
    /// What changes in the code.
    pub changes: Vec<Change>,
}

/// Bytes that the chunk of so many sites takes at most.
pub(crate) fn most(sites: usize) -> usize {
    let changes = 2 * size_of::<Change>();
    size_of::<Header>() + sites * (RECORD + changes + size_of::<Trap>() + stub::LONGEST)
}

/// A record with what keeps the next part aligned.
const RECORD: usize = SiteRecord::SIZE.next_multiple_of(8);

/// The chunk of `sites` for the address `base`, with these slots, for the object that is mapped
/// `bias` above its link-time addresses.
pub(crate) fn write(sites: &[(Site, Interest)], bias: u64, slots: &Slots, base: u64) -> Written {
    let islands = sites.iter().filter(|(site, _)| site.kind == Kind::Island);
    let islands = islands.count();
    let traps = sites.iter().filter(|(site, _)| site.kind == Kind::Trap);
    let records_at = size_of::<Header>();
    let changes_at = records_at + (sites.len() * SiteRecord::SIZE).next_multiple_of(8);
    let traps_at = changes_at + (sites.len() + islands) * size_of::<Change>();
    let stubs_at = traps_at + traps.count() * size_of::<Trap>();
    let mut written = Written {
        bytes: alloc::vec![0; stubs_at],
        kinds: Vec::with_capacity(sites.len()),
        out_of_reach: 0,
        changes: Vec::with_capacity(sites.len() + islands),
    };
    let mut trapped = Vec::new();
    for (site, interest) in sites {
        let index = written.kinds.len();
        let record = records_at + index * SiteRecord::SIZE;
        let at = base + written.bytes.len() as u64;
        let Ok((stub, change, island)) =
            site_of(site, *interest, bias, slots, at, base + record as u64)
        else {
            written.out_of_reach += 1;
            continue;
        };
        put(&mut written.bytes, record, &stub.record);
        written.bytes.extend_from_slice(stub.code());
        if site.kind == Kind::Trap {
            trapped.push(Trap {
                address: change.address,
                record: index as u64,
            });
        }
        written.changes.push(change);
        written.changes.extend(island);
        written.kinds.push(site.kind);
    }
    written
        .changes
        .sort_unstable_by_key(|change| change.address);
    for (index, change) in written.changes.iter().enumerate() {
        let at = changes_at + index * size_of::<Change>();
        put(&mut written.bytes, at, change.bytes());
    }
    for (index, trap) in trapped.iter().enumerate() {
        let at = traps_at + index * size_of::<Trap>();
        put(&mut written.bytes, at, trap.bytes());
    }
    // Sites that have no stub leave room behind the records, changes and traps.
    let header = Header {
        size: written.bytes.len() as u32,
        records: sites.len() as u32,
        changes: written.changes.len() as u32,
        traps: trapped.len() as u32,
    };
    put(&mut written.bytes, 0, header.bytes());
    written
}

/// The stub of one site, and what is changed.
fn site_of(
    site: &Site,
    interest: Interest,
    bias: u64,
    slots: &Slots,
    at: u64,
    record: u64,
) -> Result<(stub::Stub, Change, Option<Change>), OutOfReach> {
    let stub = stub::emit(site, bias, interest, slots, at, record)?;
    let (region, island) = stub::edits(site, bias, at)?;
    let island_bytes = site.bytes.get(SYSCALL.len()..SYSCALL.len() + JUMP);
    let island = island.map(|edit| Change::new(&edit, bias, island_bytes.unwrap_or_default()));
    Ok((stub, Change::new(&region, bias, site.region()), island))
}

fn put(bytes: &mut [u8], offset: usize, new: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + new.len()) {
        place.copy_from_slice(new);
    }
}

/// A chunk in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    address: usize,
    header: Header,
    /// How far above its link-time addresses the object is mapped.
    pub bias: u64,
}

impl Chunk {
    /// The chunk at `address`, of an object that is mapped `bias` above its link-time addresses;
    /// `None` where `room` bytes hold none.
    ///
    /// # Safety
    /// The bytes can be read, and never change.
    pub unsafe fn at(address: usize, room: usize, bias: u64) -> Option<Self> {
        if room < size_of::<Header>() {
            return None;
        }
        let header = crate::user::read::<Header>(address).ok()?;
        let chunk = Self {
            address,
            header,
            bias,
        };
        let parts = chunk.stubs_at();
        (parts <= header.size as usize && header.size as usize <= room).then_some(chunk)
    }

    /// Where it lies.
    pub fn address(&self) -> usize {
        self.address
    }

    fn changes_at(&self) -> usize {
        let records = self.header.records as usize * SiteRecord::SIZE;
        size_of::<Header>() + records.next_multiple_of(8)
    }

    fn stubs_at(&self) -> usize {
        let traps = self.header.traps as usize * size_of::<Trap>();
        self.traps_at() + traps
    }

    fn traps_at(&self) -> usize {
        self.changes_at() + self.header.changes as usize * size_of::<Change>()
    }

    /// `count` values from `offset` on.
    fn part<T>(&self, offset: usize, count: u32) -> &'static [T] {
        let first = (self.address + offset) as *const T;
        // SAFETY: inside of the chunk, as `at` has looked; `write` keeps the parts aligned.
        unsafe { core::slice::from_raw_parts(first, count as usize) }
    }

    /// The records.
    pub fn records(&self) -> &'static [SiteRecord] {
        self.part(size_of::<Header>(), self.header.records)
    }

    /// What is changed in the code, by address.
    pub fn changes(&self) -> &'static [Change] {
        self.part(self.changes_at(), self.header.changes)
    }

    /// The record of the site at `address` that is `ud2` now.
    pub fn trap(&self, address: usize) -> Option<&'static SiteRecord> {
        let address = (address as u64).wrapping_sub(self.bias);
        let traps: &[Trap] = self.part(self.traps_at(), self.header.traps);
        let trap = traps.iter().find(|trap| trap.address == address)?;
        self.records().get(trap.record as usize)
    }

    /// Whether `address` lies in it.
    pub fn holds(&self, address: usize) -> bool {
        (self.address..self.address + self.header.size as usize).contains(&address)
    }
}
