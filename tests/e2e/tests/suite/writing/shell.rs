//! Shells: redirections, here documents, subshells, globs, traps.

use super::{good, same};
use culvert_e2e::{Driver, on_each_driver};

on_each_driver! {
    redirections |case| good(&case,
        script!("writing/shell/redirections.sh"));

    a_subshell_shares_the_offset |case| good(&case,
        script!("writing/shell/a_subshell_shares_the_offset.sh"));

    here_documents |case| good(&case,
        script!("writing/shell/here_documents.sh"));

    appending_processes_lose_nothing |case| good(&case,
        script!("writing/shell/appending_processes_lose_nothing.sh"));

    globs_and_directories |case| good(&case,
        script!("writing/shell/globs_and_directories.sh"));

    traps_and_jobs |case| same(&case,
        script!("writing/shell/traps_and_jobs.sh"));

    // A program started in a removed directory that only a driver of its own process could have
    // held finds it stale.
    ones_own_directory_is_removed_or_moved |case| same(&case, &script!("writing/shell/ones_own_directory_is_removed_or_moved.sh").replace("LIST", if case.driver() == Some(Driver::Driven) { "echo" } else { "ls | wc -l" }));
}
