//! A layer that changes bytes: nothing shows or stores them unchanged.

use super::*;
use crate::testing::{Memory, Tree, caller, fill, writing};
use crate::{DataFile, DataLayer, Errno, sync::Mutex};
use std::{boxed::Box, vec};

const WHO: &Caller<'static> = &caller();
const KEY: u8 = 0x5a;

/// Each byte is stored with some bits turned.
struct Turned(Box<dyn File>);

impl DataLayer for Turned {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.0
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut bytes = vec![0; out.remaining()];
        let count = self.0.read_at(offset, &mut &mut bytes[..])?;
        bytes.iter_mut().for_each(|byte| *byte ^= KEY);
        out.put(&bytes[..count])
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let mut bytes = vec![0; from.remaining()];
        let count = from.take(&mut bytes)?;
        bytes.iter_mut().for_each(|byte| *byte ^= KEY);
        self.0.write_at(offset, &mut &bytes[..count])
    }
}

struct Turning {
    inner: Memory,
    growing: Arc<Mutex<()>>,
}

impl Turning {
    fn file(&self, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(file) => {
                let file = DataFile::new(Turned(file), Arc::clone(&self.growing));
                Opened::Driven(Box::new(LayeredFile(file)))
            }
            Opened::Backed(_) => unreachable!("memory is driven"),
        }
    }
}

impl Layer for Turning {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.inner
    }

    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        self.file(opened)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let grown = changes.size.is_some_and(|size| {
            let known = self.inner.attributes(&Caller::SYSTEM, node);
            known.is_ok_and(|known| size > known.size)
        });
        if grown && let Opened::Driven(file) = self.open(caller, node, OpenFlags::WRITE)? {
            return file.set_attributes(&Caller::SYSTEM, changes);
        }
        self.inner.set_attributes(caller, node, changes)
    }
}

fn turning() -> Layered<Turning> {
    Layered(Turning {
        inner: Memory::new(),
        growing: Arc::default(),
    })
}

fn driven(opened: Opened) -> Box<dyn File> {
    match opened {
        Opened::Driven(file) => file,
        Opened::Backed(_) => unreachable!("memory is driven"),
    }
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; 10_000];
    let count = file.read_at(0, &mut &mut bytes[..]).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn a_data_layer_keeps_the_contract() {
    writing(&|| Box::new(turning())).assert_ok();
}

#[test]
fn no_operation_passes_bytes_by_the_layer() {
    let fs = turning();
    let flags = OpenFlags(2);
    let (entry, opened) = fs.create(WHO, fs.root(), b"f", flags, 0o600).unwrap();
    let file = driven(opened);
    let node = entry.attributes.node;
    file.write_at(0, &mut &b"one"[..]).unwrap();
    assert_eq!(file.append(&mut &b"two"[..]).unwrap(), (3, 3));
    file.write_at(10, &mut &b"far"[..]).unwrap();
    let size = |size| SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    file.set_attributes(&Caller::SYSTEM, &size(20)).unwrap();
    fs.set_attributes(WHO, node, &size(30)).unwrap();
    let mut want = b"onetwo\0\0\0\0far".to_vec();
    want.resize(30, 0);
    assert_eq!(content(&*file), want);

    let inner = driven(fs.0.inner.open(WHO, node, OpenFlags::READ).unwrap());
    let stored: Vec<u8> = want.iter().map(|byte| byte ^ KEY).collect();
    assert_eq!(content(&*inner), stored);

    let (_, other) = fs.create(WHO, fs.root(), b"g", flags, 0o600).unwrap();
    let other = driven(other);
    let refused = file.copy_range(0, &*other, 0, 3).unwrap_err();
    assert_eq!(refused.errno(), Errno::EOPNOTSUPP);
    // Nor does the inner driver recognise it.
    assert!(inner.copy_range(0, &*other, 0, 3).is_err());
    let refused = file.allocate(0, 0, 100).unwrap_err();
    assert_eq!(refused.errno(), Errno::EOPNOTSUPP);
    assert!(file.descriptor().is_none() && file.as_any().is_none());
    let mapped = file.with_kernel_file((0, 30), false, &mut |_| {
        panic!("the inner file was given to be mapped")
    });
    assert!(!mapped.unwrap());
    let tree = Tree::new().file("x", "y");
    fill(&fs, &tree).unwrap();
}
