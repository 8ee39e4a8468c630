//! From the tree under construction to the sections of an index.

use super::{ROOT, Tree};
use crate::archive::format::{self, EntryRecord, Header, NODE, NONE, NodeRecord, Parts};
use alloc::{vec, vec::Vec};
use culvert::FileKind;

impl Tree {
    /// Drops what was replaced, groups entries by directory, counts links and makes the table for
    /// the seed of `header`. The index, of `header` and with these `checkpoints`.
    pub fn seal(mut self, mut header: Header, checkpoints: Vec<u8>) -> Parts {
        let numbers = self.renumber();
        let order = self.place_entries(&numbers);
        let mut entries = vec![0; order.len() * format::ENTRY];
        let slots = (order.len() * 2).next_power_of_two().max(2);
        let mut table = vec![0u8; slots * format::SLOT];
        for (at, &old) in order.iter().enumerate() {
            let entry = self.entries[old as usize];
            let record = EntryRecord {
                node: numbers[entry.node as usize],
                parent: numbers[entry.parent as usize],
                ..entry
            };
            entries[at * format::ENTRY..][..format::ENTRY].copy_from_slice(&record.encode());
            let hash = format::entry_hash(header.seed, record.parent, self.name(&entry));
            let (mut slot, tag) = format::slot_of(hash, slots);
            while table[slot * format::SLOT + 4..][..4] != [0; 4] {
                slot = (slot + 1) & (slots - 1);
            }
            table[slot * format::SLOT..][..4].copy_from_slice(&tag.to_le_bytes());
            table[slot * format::SLOT + 4..][..4].copy_from_slice(&(at as u32 + 1).to_le_bytes());
        }
        let mut nodes = Vec::new();
        for (old, record) in self.nodes.iter().enumerate() {
            if numbers[old] != NONE {
                if record.mode & 0o170000 == FileKind::Regular as u32 {
                    header.content = header.content.saturating_add(record.size);
                }
                nodes.reserve(NODE);
                nodes.extend_from_slice(&record.encode());
            }
        }
        // In the order of `format::Section`.
        let sections = [
            nodes,
            entries,
            table,
            self.names,
            self.sparse,
            self.xattrs,
            checkpoints,
            self.warnings.encode(),
        ];
        Parts::new(header, sections)
    }

    /// New record numbers of the nodes that something names, in the old order; [`NONE`] for the
    /// others. Counts links on the way.
    fn renumber(&mut self) -> Vec<u32> {
        let mut numbers = vec![NONE; self.nodes.len()];
        numbers[ROOT as usize] = 0;
        for record in &mut self.nodes {
            let directory = record.is_directory();
            record.links = if directory { 2 } else { 0 };
            if directory {
                record.size = 0;
            }
        }
        for entry in &self.entries {
            numbers[entry.node as usize] = 0;
            if entry.kind == FileKind::Directory.directory_type() {
                self.nodes[entry.parent as usize].links += 1;
            } else {
                self.nodes[entry.node as usize].links += 1;
            }
        }
        let named = numbers.iter_mut().filter(|number| **number != NONE);
        for (next, number) in named.enumerate() {
            *number = next as u32;
        }
        numbers
    }

    /// Gives every directory its range of entries and returns the entries' old numbers in their new
    /// order.
    fn place_entries(&mut self, numbers: &[u32]) -> Vec<u32> {
        let mut start = 0;
        for (record, &number) in self.nodes.iter_mut().zip(numbers) {
            if number != NONE && record.is_directory() {
                record.place = start;
                start += record.extent;
                record.extent = 0;
            }
        }
        let mut order = vec![0; self.entries.len()];
        for (old, entry) in self.entries.iter().enumerate() {
            let parent: &mut NodeRecord = &mut self.nodes[entry.parent as usize];
            let at = parent.place + parent.extent;
            parent.extent += 1;
            order[at as usize] = old as u32;
            self.nodes[entry.node as usize].entry = at as u32;
        }
        order
    }
}
