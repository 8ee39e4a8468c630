//! An open file of a branch, with the union's numbers; and which goes on with the file where that
//! is moved to another branch.

use super::branch::Tree;
use super::state::{Core, Shared};
use super::table::Key;
use alloc::{boxed::Box, sync::Arc};
use culvert::{
    Attributes, Caller, Errno, Error, File, FileLayer, LayeredFile, Node, OpenFlags, Operation,
    Result, Source,
};
use culvert_sys::sync::OnceCell;

/// It, which keeps its node.
pub struct UnionFile {
    shared: Arc<Shared>,
    node: Node,
    /// What keeps it.
    pinned: Key,
    flags: OpenFlags,
    /// Whether it is moved where there is no room (option `moveonenospc` when it was opened).
    moves: bool,
    first: Place,
}

/// Where it is: on the last branch of this list.
struct Place {
    tree: Arc<Tree>,
    part: Node,
    inner: Box<dyn File>,
    /// This has a reference of the branch's.
    referred: bool,
    next: OnceCell<Box<Self>>,
}

impl Place {
    const fn new(tree: Arc<Tree>, part: Node, inner: Box<dyn File>, referred: bool) -> Self {
        Self {
            tree,
            part,
            inner,
            referred,
            next: OnceCell::new(),
        }
    }
}

/// Bytes that are kept to be written again.
const PIECE: usize = 1 << 20;

impl UnionFile {
    /// `inner`, which is `node`, on the branch `tree`, where it is `part`, open with `flags`.
    pub fn wrap(
        core: &Core,
        node: Node,
        (tree, part): (&Arc<Tree>, Node),
        flags: OpenFlags,
        inner: Box<dyn File>,
    ) -> Result<Box<dyn File>> {
        let pinned = core.nodes.pin_open(node)?;
        Ok(Box::new(LayeredFile(Self {
            shared: Arc::clone(core.shared()),
            node,
            pinned,
            flags,
            moves: core.settings().moves.is_some(),
            first: Place::new(Arc::clone(tree), part, inner, false),
        })))
    }

    /// Where it is, as far as this one knows.
    fn place(&self) -> &Place {
        let mut here = &self.first;
        while let Some(next) = here.next.get() {
            here = next;
        }
        here
    }

    /// Goes on where others have moved it. What cannot be opened there is an error: what is written
    /// here is lost.
    fn catch_up(&self) -> Result<()> {
        loop {
            let here = self.place();
            let found = here.inner.attributes(&Caller::SYSTEM);
            if found.is_ok_and(|found| found.links > 0) {
                return Ok(());
            }
            let core = Core::now(&self.shared);
            let Some(to) = core.moved((&here.tree, here.part)) else {
                return Ok(());
            };
            match self.go_on(&core, here, to, None) {
                // It was removed there.
                Err(error) if matches!(error.errno(), Errno::ESTALE | Errno::ENOENT) => {
                    return Ok(());
                }
                done => done?,
            }
        }
    }

    /// How it is opened at its next place.
    const fn flags(&self) -> OpenFlags {
        let gone = OpenFlags::TRUNCATE
            .with(OpenFlags::EXCLUSIVE)
            .with(OpenFlags::LENDS);
        self.flags.without(gone)
    }

    /// Goes on with what is node `to` of a branch: `opened`, if this has a reference on it.
    fn go_on(
        &self,
        core: &Core,
        here: &Place,
        to: (usize, Node),
        opened: Option<Box<dyn File>>,
    ) -> Result<()> {
        let tree = &core.branches[to.0].tree;
        let referred = opened.is_some();
        let made = here.next.get_or_try_init(|| {
            let inner = match opened {
                Some(opened) => opened,
                None => core.open_again(to, self.flags())?,
            };
            Ok::<_, Error>(Box::new(Place::new(
                Arc::clone(tree),
                to.1,
                inner,
                referred,
            )))
        });
        let is_its = made
            .as_ref()
            .is_ok_and(|made| made.part == to.1 && made.referred);
        if referred && !is_its {
            tree.fs.forget(to.1, 1);
        }
        made.map(drop)
    }

    /// Whether it could be moved where `more` bytes have room, or was already.
    fn moves_on(&self, more: u64) -> bool {
        let here = self.place();
        let open = (&*here.inner, self.flags());
        let core = Core::now(&self.shared);
        let at = core.branch_of(&here.tree);
        let moved = at.and_then(|at| core.make_room(self.node, (at, here.part), open, more));
        match moved {
            Some((to, part, opened)) => {
                let done = self.go_on(&core, here, (to, part), Some(opened));
                done.is_ok()
            }
            None => self.catch_up().is_ok() && !core::ptr::eq(here, self.place()),
        }
    }

    /// Writes what `from` has by `write`, which says where and how much, again where there is more
    /// room.
    fn write_all(
        &self,
        from: &mut dyn Source,
        write: impl Fn(&dyn File, u64, &[u8]) -> Result<(u64, usize)>,
    ) -> Result<(u64, usize)> {
        let mut buffer = alloc::vec![0; from.remaining().min(PIECE)];
        let (mut start, mut total) = (0, 0);
        loop {
            let wanted = from.remaining().min(PIECE);
            let taken = match from.take(&mut buffer[..wanted]) {
                Err(error) if total == 0 => return Err(error),
                taken => taken.unwrap_or(0),
            };
            let mut done = 0;
            // A write of nothing is one, too.
            while done < taken || total == 0 && taken == 0 {
                let bytes = &buffer[done..taken];
                let written = write(&*self.place().inner, (total + done) as u64, bytes);
                match written {
                    Ok((at, count)) => {
                        if total + done == 0 {
                            start = at;
                        }
                        done += count;
                        if count == 0 {
                            return Ok((start, total + done));
                        }
                    }
                    Err(error) => {
                        let full = matches!(error.errno(), Errno::ENOSPC | Errno::EDQUOT);
                        if full && self.moves_on(bytes.len() as u64) {
                            continue;
                        }
                        return match total + done {
                            0 => Err(error),
                            written => Ok((start, written)),
                        };
                    }
                }
            }
            total += done;
            if from.remaining() == 0 {
                return Ok((start, total));
            }
        }
    }
}

impl Drop for UnionFile {
    fn drop(&mut self) {
        let mut here = Some(&self.first);
        while let Some(place) = here {
            if place.referred {
                place.tree.fs.forget(place.part, 1);
            }
            here = place.next.get().map(|next| &**next);
        }
        self.shared.nodes.unpin_open(self.pinned).give_back();
    }
}

impl FileLayer for UnionFile {
    type Inner = dyn File;

    fn inner(&self) -> &Self::Inner {
        &*self.place().inner
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        Core::now(&self.shared).shown(self.node, &self.place().tree, attributes)
    }

    fn around<T>(
        &self,
        _: Operation,
        _: Option<&Caller<'_>>,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        if self.moves {
            self.catch_up()?;
        }
        work()
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        if !self.moves {
            return self.inner().write_at(offset, from);
        }
        self.catch_up()?;
        let written = self.write_all(from, |file, done, bytes| {
            let count = file.write_at(offset + done, &mut &bytes[..])?;
            Ok((offset + done, count))
        });
        written.map(|written| written.1)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        if !self.moves {
            return self.inner().append(from);
        }
        self.catch_up()?;
        self.write_all(from, |file, _, bytes| file.append(&mut &bytes[..]))
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        loop {
            let done = self.around(Operation::Allocate, None, || {
                self.inner().allocate(mode, offset, length)
            });
            match done {
                Err(error)
                    if error.errno() == Errno::ENOSPC && self.moves && self.moves_on(length) => {}
                done => return done,
            }
        }
    }

    fn touches_data(&self) -> bool {
        // Unless a write is to be made again.
        self.moves
    }

    fn reports_at_close(&self) -> bool {
        // What was moved meanwhile is closed elsewhere.
        self.moves || self.inner().reports_at_close()
    }

    fn may_be_passed(&self) -> bool {
        !self.moves && self.inner().may_be_passed()
    }

    // Bytes are the branch's own.

    fn descriptor(&self) -> Option<i32> {
        self.inner().descriptor()
    }
}
