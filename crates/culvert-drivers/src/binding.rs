//! Mounts whose source the launcher binds over their target, so that the kernel shows the same to
//! programs that are not intercepted.

use crate::{declared::BOUND, layers, registry::declared};
use culvert::mount::Mount;

/// Whether the kernel could show the same as `mount`, which was prepared, by binding its source
/// over its target: nothing is changed by calls or layers.
pub fn may_be_bound(mount: &Mount) -> bool {
    let may = declared(mount).and_then(|declared| declared.may_be_bound);
    may.is_some_and(|may| may(mount)) && layers::touch_nothing(mount)
}

/// Notes that the source of `mount` is bound over its target, for every process of the run.
pub fn set_bound(mount: &mut Mount) {
    mount.options.push((BOUND.into(), Default::default()));
}

/// Whether that was noted: what the kernel finds at the target is the mount itself.
pub fn is_bound(mount: &Mount) -> bool {
    mount.option(BOUND).is_some()
        && declared(mount).is_some_and(|declared| declared.may_be_bound.is_some())
}
