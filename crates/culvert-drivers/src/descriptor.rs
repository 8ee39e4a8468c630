//! Descriptors that a driver holds in the process of a program.

use core::{
    mem::ManuallyDrop,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};
use culvert_sys::{nr, syscall};

/// A descriptor that is closed when dropped.
#[derive(Debug)]
pub struct Descriptor(i32);

impl Descriptor {
    /// Takes over `fd`.
    pub const fn from_raw(fd: i32) -> Self {
        Self(fd)
    }

    /// The number, still owned by `self`.
    pub const fn raw(&self) -> i32 {
        self.0
    }

    /// Gives the number away.
    pub fn into_raw(self) -> i32 {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours alone.
        let _ = unsafe { syscall::call(nr::CLOSE, [self.0 as usize]) };
    }
}

/// Moves a descriptor that the driver will keep out of the program's way and returns where its number is to be looked up each time: the
/// embedder may move it again. The driver closes it, and stores -1 there, when it is done; None: the driver keeps the number it has.
pub type Adopt = fn(i32) -> Option<&'static AtomicI32>;

/// A descriptor that a driver keeps: its own, or one that the embedder moves about.
#[derive(Debug)]
pub struct Held(Number);

#[derive(Debug)]
enum Number {
    Own(i32),
    Kept(&'static AtomicI32),
}

impl Held {
    /// Hands a descriptor of the driver's own to `adopt`, if there is one.
    #[must_use]
    pub fn adopted(self, adopt: Option<Adopt>) -> Self {
        let this = ManuallyDrop::new(self);
        Self(match (&this.0, adopt) {
            (Number::Own(number), Some(adopt)) => match adopt(*number) {
                Some(place) => Number::Kept(place),
                None => Number::Own(*number),
            },
            (Number::Own(number), None) => Number::Own(*number),
            (Number::Kept(place), _) => Number::Kept(place),
        })
    }

    /// The number as it is now: not to be kept.
    #[inline]
    pub fn raw(&self) -> i32 {
        match self.0 {
            Number::Own(number) => number,
            Number::Kept(place) => place.load(Relaxed),
        }
    }

    /// Runs `run` on the descriptor.
    pub fn with<R>(&self, run: impl FnOnce(&Descriptor) -> R) -> R {
        run(&ManuallyDrop::new(Descriptor(self.raw())))
    }
}

impl From<Descriptor> for Held {
    fn from(descriptor: Descriptor) -> Self {
        Self(Number::Own(descriptor.into_raw()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(Descriptor(match self.0 {
            Number::Own(number) => number,
            Number::Kept(place) => place.swap(-1, Relaxed),
        }));
    }
}
