//! coreutils, findutils, tar, rsync.

use super::{good, same};
use culvert_e2e::{Driver, installed, on_each_driver};

on_each_driver! {
    copies |case| good(&case,
        script!("writing/files/copies.sh"));

    moves |case| good(&case,
        script!("writing/files/moves.sh"));

    links_and_removal |case| good(&case,
        script!("writing/files/links_and_removal.sh"));

    pieces |case| good(&case,
        script!("writing/files/pieces.sh"));

    attributes |case| good(&case,
        script!("writing/files/attributes.sh"));

    extended_attributes |case| if installed("setfattr") && installed("setfacl") { good(&case,
        script!("writing/files/extended_attributes.sh")) };

    access_lists |case| if installed("setfacl") && case.driver() != Some(Driver::Memory) { good(&case,
        script!("writing/files/access_lists.sh")) };

    holes |case| good(&case,
        script!("writing/files/holes.sh"));

    find_and_change |case| good(&case,
        script!("writing/files/find_and_change.sh"));

    tar |case| good(&case,
        script!("writing/files/tar.sh"));

    cpio_and_zip |case| if installed("zip") && installed("unzip") { same(&case,
        script!("writing/files/cpio_and_zip.sh")) };

    rsync |case| if installed("rsync") { good(&case,
        script!("writing/files/rsync.sh")) };

    tail_follows |case| same(&case,
        script!("writing/files/tail_follows.sh"));
}
