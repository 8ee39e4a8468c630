//! What msync(2) with MS_SYNC is about: bytes of files, whoever has stored them, and through which
//! mapping (`vfs_fsync_range`, fs/sync.c).

use super::dirty::{self, Dirty};
use super::nodes::{self, Mapped, Node};
use super::regions::merged;
use super::{records, recovery, reopen};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert::Errno;
use culvert_intercept::maps;
use culvert_run::task;
use culvert_run::{self as run, ShadowName};

/// Whether this process, or one that it is a fork of, has mapped a shadow that is no region of
/// ours.
static SOME_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// A shadow is about to be mapped by a descriptor that cannot be written by.
pub fn maps_read_only() {
    SOME_READ_ONLY.store(true, Relaxed);
}

/// Bytes of a file that a range of addresses shows.
struct Shown {
    name: ShadowName,
    /// Where this process maps the file so that it can be written.
    node: Option<Arc<Node>>,
    ranges: Vec<(u64, u64)>,
}

/// What a range of addresses shows of files that may have stores in mappings.
#[derive(Default)]
pub struct Synced(Vec<Shown>);

impl Synced {
    /// What is mapped from `start` on by descriptors that cannot be written by, and so is no region
    /// of ours. An error: it cannot be found out.
    pub fn read_only(start: usize, length: usize) -> Result<Self, Errno> {
        let mut shown = Self::default();
        if !SOME_READ_ONLY.load(Relaxed) {
            return Ok(shown);
        }
        let end = start.saturating_add(nodes::pages(length));
        let known = nodes::between(start, length);
        let known: usize = known.iter().map(|it| it.end - it.start).sum();
        if known >= end - start || task::is_confined() || records::all(|_| true)?.is_empty() {
            return Ok(shown);
        }
        for (mapping, path) in maps::shared_between(start as u64, end as u64)? {
            let Some(name) = run::get().parse(&path) else {
                continue;
            };
            let from = mapping.start.max(start as u64);
            let first = mapping.offset + (from - mapping.start);
            let last = first + (mapping.end.min(end as u64) - from);
            if records::any(name)? {
                shown.add(name, nodes::find(name), (first, last));
            }
        }
        Ok(shown)
    }

    fn add(&mut self, name: ShadowName, node: Option<Arc<Node>>, range: (u64, u64)) {
        match self.0.iter_mut().find(|it| it.name == name) {
            Some(known) => known.ranges.push(range),
            None => self.0.push(Shown {
                name,
                node,
                ranges: alloc::vec![range],
            }),
        }
    }

    /// Adds what `regions` show.
    pub fn add_regions(&mut self, regions: &[Mapped]) {
        for region in regions {
            self.add(region.of.name, Some(region.of.clone()), region.bytes());
        }
    }

    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells `write_back` what this process has stored there, through any of its mappings. Under
    /// [`nodes::flushing`].
    pub fn own(&mut self, mut write_back: impl FnMut(Vec<(Arc<Node>, Dirty)>)) {
        for shown in &mut self.0 {
            shown.ranges = merged(core::mem::take(&mut shown.ranges));
        }
        nodes::in_parts(|part| {
            let shown = part.iter().flat_map(|region| self.parts(region));
            let shown: Vec<Mapped> = shown.collect();
            write_back(dirty::collect(&shown));
        });
    }

    /// The parts of `region` that show some of it.
    fn parts<'a>(&'a self, region: &'a Mapped) -> impl Iterator<Item = Mapped> + 'a {
        let bytes = region.bytes();
        let shown = self.0.iter().find(|it| it.name == region.of.name);
        let ranges = shown.map_or(&[][..], |it| &it.ranges);
        let first = ranges.partition_point(|range| range.1 <= bytes.0);
        let ranges = ranges[first..].iter();
        let ranges = ranges.take_while(move |range| range.0 < bytes.1);
        ranges.filter_map(|&range| region.showing(range))
    }

    /// Writes back what others have stored there, and makes all of it durable; the first error.
    /// After [`Synced::own`].
    pub fn others(&self) -> culvert::Result<()> {
        let mut result = Ok(());
        for shown in &self.0 {
            let written = shown.others().and_then(|()| shown.sync());
            result = result.and(written);
        }
        result
    }
}

impl Shown {
    fn others(&self) -> culvert::Result<()> {
        let open = self.node.as_ref().map(|node| &*node.open);
        // Its number may be another file's by now.
        if open.is_some_and(|it| it.orphan().is_some()) {
            return Ok(());
        }
        recovery::write_back_others_in(self.name, open, &self.ranges)
    }

    fn sync(&self) -> culvert::Result<()> {
        match &self.node {
            Some(node) => node.open.file()?.sync(true),
            None => match reopen::for_reading(self.name) {
                // It was mapped when it could be opened.
                Err(error) if reopen::is_out_of_reach(&error) => Ok(()),
                file => file?.sync(true),
            },
        }
    }
}
