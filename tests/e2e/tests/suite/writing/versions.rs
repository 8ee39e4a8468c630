//! git.

use super::good;
use culvert_e2e::{Case, on_each_driver};
use std::time::Duration;

fn git(case: Case, script: &str) {
    let case = case.limit(Duration::from_secs(150));
    // Names, dates and therefore all hashes are fixed.
    good(
        &case,
        &format!(
            "export HOME=$W GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@x GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_MERGE_AUTOEDIT=no
             git config --global init.defaultBranch main; git config --global advice.detachedHead false; git config --global safe.directory '*'
             {script}
             cd $M; rm -rf $(find . -maxdepth 2 -name .git) *.git"
        ),
    );
}

on_each_driver! {
    commit_branch_and_rebase |case| git(case,
        "git init -q r; cd r; seq 100 > f; mkdir d; echo x > d/x; ln -s f link; echo '*.o' > .gitignore; touch a.o; chmod +x d/x; git add -A; git commit -qm first; git status -s; git log --format='%H %s'; git switch -qc topic; sed -i 's/50/fifty/' f; git commit -qam topic; git switch -q main; sed -i 's/10/ten/' f; git mv d/x d/y; git commit -qam main; git rebase -q main topic; git log --format='%H %s'; git diff --stat HEAD~2; git switch -q main; git merge -q --no-ff topic -m merge; git log --graph --format=%s; git tag v1; git stash list; echo dirty >> f; git stash -q; git stash pop -q; git status -s; git checkout -q f; git worktree add -q ../w v1; ls ../w; git -C ../w log -1 --format=%h; git worktree list | wc -l; git worktree remove ../w; git reset -q --hard HEAD~1; git reflog | wc -l; git clean -qfdx; ls -A; git fsck --full 2>&1 | sed /dangling/d; git show-ref");

    clone_fetch_and_collect |case| git(case,
        "git init -q r; cd r; for i in $(seq 12); do seq $i 200 > f$i; git add .; git commit -qm $i; done; cd ..; git clone -q r c; git clone -q --bare r b.git; git clone -q --no-local --depth 3 file://$M/r s; git -C s log --format=%s; git -C c gc -q; git -C c count-objects -v | grep -E '^(count|in-pack|packs)'; git -C c repack -adq; git -C c prune; git -C c fsck --full; cd c; echo new > new; git add new; git commit -qm new; git push -q origin HEAD:refs/heads/pushed; git -C ../r log -1 --format=%s pushed; git -C ../b.git fetch -q ../c main:fetched; git -C ../b.git log -1 --format=%s fetched; git pack-refs --all; git for-each-ref; git archive HEAD | tar t | wc -l; git rev-parse HEAD; git grep -c 199 | wc -l; git blame -s f3 | head -n 2; git log --stat -2 | tail -n 5; git -C ../r branch -d pushed -q -f 2>&1 | wc -l; git ls-files -s | md5sum; git read-tree HEAD; git update-index --refresh; git status -s");
}
