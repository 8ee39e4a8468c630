//! git.

use super::good;
use culvert_e2e::{Case, on_each_driver};
use std::time::Duration;

fn git(case: Case, script: &str) {
    let case = case.limit(Duration::from_secs(150));
    // Names, dates and therefore all hashes are fixed.
    good(&case, &script!("writing/versions/git.sh", script));
}

on_each_driver! {
    commit_branch_and_rebase |case| git(case,
        script!("writing/versions/commit_branch_and_rebase.sh"));

    clone_fetch_and_collect |case| git(case,
        script!("writing/versions/clone_fetch_and_collect.sh"));
}
