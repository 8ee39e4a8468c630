//! What a driver by paths tells of changes.

use crate::path::{PathAdapter, PathChange, PathEntry, PathFileSystem, PathObserver};
use crate::sync::Mutex;
use crate::testing::caller;
use crate::{
    Attributes, Caller, Change, Errno, FileKind, FileSystem, Observed, Observer, OpenFlags, Result,
};
use std::{boxed::Box, vec::Vec};

/// Where changes are told by path.
type Teller = std::sync::Arc<dyn PathObserver>;

/// A directory `d` with a file `f`, whose driver hands its observer out.
#[derive(Default)]
struct Telling(Mutex<Option<Teller>>);

impl PathFileSystem for &'static Telling {
    type Handle = ();

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        match path {
            b"" | b"d" => Ok(Attributes::new(FileKind::Directory, 0o755)),
            b"d/f" => Ok(Attributes::new(FileKind::Regular, 0o644)),
            _ => Err(Errno::ENOENT.into()),
        }
    }

    fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
        Ok(Vec::new())
    }

    fn open(&self, _: &Caller<'_>, _: &[u8], _: OpenFlags) -> Result<()> {
        Ok(())
    }

    fn read(&self, (): &(), _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn observe(&self, observer: Teller) -> bool {
        *self.0.lock() = Some(observer);
        true
    }
}

#[test]
fn what_a_driver_tells_by_path_is_told_by_node() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<Change>>);
    impl Observer for Heard {
        fn tell(&self, change: Change) {
            self.0.lock().push(change);
        }
        fn report(&self, _: &str) {}
    }

    let telling: &'static Telling = Box::leak(Box::default());
    let adapter = PathAdapter::new(telling);
    let heard = std::sync::Arc::new(Heard::default());
    assert_eq!(adapter.observe(heard.clone()), Observed::Told);
    let tell = telling.0.lock().clone().expect("it was given");
    // Nobody was told of what is below.
    tell.tell(PathChange::Content(b"d/f"));
    assert!(heard.0.lock().is_empty());
    let dir = adapter
        .lookup(&caller(), adapter.root(), b"d")
        .expect("there");
    let file = adapter
        .lookup(&caller(), dir.attributes.node, b"f")
        .expect("there");
    tell.tell(PathChange::Content(b"d/f"));
    tell.tell(PathChange::Name(b"d/new"));
    tell.tell(PathChange::Attributes(b""));
    let want = [
        Change::Content(file.attributes.node),
        Change::Name {
            dir: dir.attributes.node,
            name: b"new".to_vec(),
        },
        Change::Attributes(adapter.root()),
    ];
    assert_eq!(*heard.0.lock(), want);
}
