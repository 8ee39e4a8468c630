//! A container's droppings, and its merged index.

use crate::{open, wrong};
use culvert_drivers::plfs::SMALL_FILES;
use culvert_drivers::plfs::index::{Index, Numbered};
use culvert_drivers::plfs::layout::{self, ACCESS, HOSTDIR, INDEX, Record};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Told now and then: records done, and of how many.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Records between two calls of [`Progress`].
const STEP: u64 = 1 << 16;

/// An index dropping.
#[derive(Clone, Debug)]
pub struct Dropping {
    /// Its path.
    pub path: PathBuf,
    /// Its length, bytes.
    pub length: u64,
    /// The directory it is in.
    dir: Arc<OwnedFd>,
}

impl Dropping {
    fn name(&self) -> &[u8] {
        self.path.file_name().map_or(b"", OsStr::as_bytes)
    }

    /// The data dropping of writer `id` beside it.
    pub fn data(&self, id: u32) -> Option<PathBuf> {
        let own = layout::dropping(INDEX, self.name())?;
        let name = layout::data_name(&own, id);
        Some(self.path.with_file_name(OsStr::from_bytes(&name)))
    }

    /// Opens it, to be read or, too, written.
    pub fn open(&self, write: bool) -> io::Result<File> {
        open::file(&*self.dir, OsStr::from_bytes(self.name()), write)
    }

    /// Calls `each` with its records; none: a record that is of no write.
    pub fn records(
        &self,
        each: &mut dyn FnMut(u64, Option<Record>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = io::BufReader::with_capacity(1 << 18, self.open(false)?);
        let mut bytes = [0; Record::SIZE];
        for number in 0..self.length / Record::SIZE as u64 {
            file.read_exact(&mut bytes)?;
            each(number, Record::decode(&bytes))?;
        }
        Ok(())
    }
}

/// The droppings of a container.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The container, an absolute path.
    pub path: PathBuf,
    /// Its index droppings.
    pub droppings: Vec<Dropping>,
}

impl Scan {
    /// Looks at the container at `path`, a directory on its canonical back end.
    pub fn new(path: &Path) -> io::Result<Self> {
        let whole = fs::canonicalize(path);
        let found = whole.as_ref().is_ok_and(|path| is_container(path));
        if !found && is_small(path) {
            return Err(wrong(SMALL));
        }
        let path = whole?;
        if !found {
            return Err(wrong("no PLFS container: it has no access file"));
        }
        let mut droppings = Vec::new();
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if !entry.file_name().as_bytes().starts_with(HOSTDIR) {
                continue;
            }
            let Some(dir) = directory(&path, &entry.path())? else {
                continue;
            };
            let opened = Arc::new(open::directory(&dir)?);
            for name in open::names(&*opened)? {
                if name.starts_with(INDEX) {
                    let mut dropping = Dropping {
                        path: dir.join(OsStr::from_bytes(&name)),
                        length: 0,
                        dir: Arc::clone(&opened),
                    };
                    dropping.length = dropping.open(false)?.metadata()?.len();
                    droppings.push(dropping);
                }
            }
        }
        droppings.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(Self { path, droppings })
    }

    /// How many records there are.
    pub fn count(&self) -> u64 {
        let each = self.droppings.iter();
        each.map(|one| one.length / Record::SIZE as u64).sum()
    }

    /// Its name in messages.
    pub fn short(&self, path: &Path) -> String {
        path.strip_prefix(&self.path)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// The merged index.
    pub fn index(&self, progress: Progress<'_>) -> io::Result<Merged> {
        let mut merged = Merged {
            index: Index::new(usize::MAX),
            chunks: Vec::new(),
            owners: Vec::new(),
            droppings: self.droppings.clone(),
            files: Vec::new(),
        };
        let (all, mut done) = (self.count(), 0);
        for (at, dropping) in self.droppings.iter().enumerate() {
            let mut known: Vec<(u32, u32)> = Vec::new();
            dropping.records(&mut |number, record| {
                let name = self.short(&dropping.path);
                let bad = || wrong(format!("{name}: record {number} is of no write"));
                let record = record.ok_or_else(bad)?;
                let chunk = match known.iter().find(|(id, _)| *id == record.id) {
                    Some((_, chunk)) => *chunk,
                    None => {
                        let chunk = merged.chunks.len() as u32;
                        merged
                            .chunks
                            .push(dropping.data(record.id).ok_or_else(bad)?);
                        merged.owners.push(record.id);
                        known.push((record.id, chunk));
                        chunk
                    }
                };
                let from = (at as u32, number);
                let next = Numbered {
                    record,
                    chunk,
                    from,
                };
                merged.index.add_all(std::iter::once(next)).map_err(other)?;
                done += 1;
                if done % STEP == 0 {
                    progress(done, all);
                }
                Ok(())
            })?;
            merged.index.settle().map_err(other)?;
        }
        Ok(merged)
    }
}

/// An error of the driver's as one of the standard library.
pub fn other(error: culvert::Error) -> io::Error {
    wrong(error.to_string())
}

/// Whether the directory `path` has an access file.
pub fn is_container(path: &Path) -> bool {
    fs::symlink_metadata(path.join(OsStr::from_bytes(ACCESS))).is_ok()
}

/// What is said of small files.
const SMALL: &str = "small files have no containers: a mount with workload=small_file and all back \
     ends of theirs reads them, and finds what writers that were killed have left";

/// Whether `path` is where the small files of a directory are, or may be one of them.
fn is_small(path: &Path) -> bool {
    let directory = OsStr::from_bytes(SMALL_FILES);
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    let beside = path.with_file_name(directory);
    path.file_name() == Some(directory) || !is_there(path) && is_there(&beside)
}

/// The directory that `path` is, or that the metalink `path` of `container` leads to; none where
/// that is not there.
fn directory(container: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let status = fs::symlink_metadata(path)?;
    if status.is_dir() {
        return Ok(Some(path.to_owned()));
    }
    let name = path.file_name().unwrap_or_default().display().to_string();
    if !status.is_symlink() {
        return Err(wrong(format!("{name}: neither a directory nor a metalink")));
    }
    let text = fs::read_link(path)?;
    let bad = |why: &str| wrong(format!("{name}: {why}"));
    let link = layout::metalink(text.as_os_str().as_bytes());
    let (length, back) = link.ok_or_else(|| bad("no metalink"))?;
    let own = [container.as_os_str().as_bytes(), b"/", name.as_bytes()].concat();
    let rest = own
        .get(length..)
        .ok_or_else(|| bad("a metalink longer than its path"))?;
    let rest = OsStr::from_bytes(rest);
    let rest = Path::new(rest).strip_prefix("/").unwrap_or(Path::new(rest));
    let target = Path::new(OsStr::from_bytes(back)).join(rest);
    match fs::symlink_metadata(&target) {
        Ok(status) if status.is_dir() => Ok(Some(target)),
        Ok(_) => Err(bad("a metalink to what is no directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All records of a container.
pub struct Merged {
    /// Where each byte is.
    pub index: Index,
    /// The data droppings, by the numbers that the index has for them.
    pub chunks: Vec<PathBuf>,
    /// And who wrote them.
    pub owners: Vec<u32>,
    droppings: Vec<Dropping>,
    files: Vec<Option<File>>,
}

impl Merged {
    /// When a record was written.
    fn time_of(&mut self, (at, number): (u32, u64)) -> io::Result<f64> {
        let at = at as usize;
        self.files.resize_with(self.droppings.len(), || None);
        if self.files[at].is_none() {
            self.files[at] = Some(self.droppings[at].open(false)?);
        }
        let mut bytes = [0; Record::SIZE];
        if let Some(file) = &self.files[at] {
            file.read_exact_at(&mut bytes, number * Record::SIZE as u64)?;
        }
        let record =
            Record::decode(&bytes).ok_or_else(|| wrong("an index dropping has changed"))?;
        Ok(record.end)
    }

    /// What the bytes from `offset` on are.
    pub fn find(&mut self, offset: u64) -> io::Result<culvert_drivers::plfs::index::Found> {
        let index = std::mem::replace(&mut self.index, Index::new(0));
        let found = index.find(offset, &mut |from| {
            let time = self.time_of(from);
            time.map_err(|error| culvert::Error::because(culvert::Errno::EIO, error.to_string()))
        });
        self.index = index;
        found.map_err(other)
    }
}
