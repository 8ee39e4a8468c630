export HOME=$W
cd $M/work
git log --oneline
git diff HEAD~1 --stat
git ls-files
git cat-file --batch-check --batch-all-objects | md5sum
GIT_OPTIONAL_LOCKS=0 git status --short
git stash list
cd d3
git rev-parse --show-toplevel --show-prefix
