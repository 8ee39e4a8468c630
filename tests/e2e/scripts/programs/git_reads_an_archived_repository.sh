export HOME=$W
G='git --git-dir'
$G $M/repo.git log --stat
$G $M/repo.git fsck --full
$G $M/repo.git show v1 | head -n 5
$G $M/repo.git cat-file -p HEAD:numbers | md5sum
$G $M/repo.git rev-list --all --objects | md5sum
$G $M/repo.git blame main -- d1/file
$G $M/repo.git grep -c 1 main
git clone -q $M/repo.git $W/clone && git -C $W/clone log --oneline \
    && diff $W/clone/numbers $M/work/numbers && echo cloned
git clone -q --no-local $M/repo.git $W/second && git -C $W/second fsck
git clone -q --shared $M/repo.git $W/third && git -C $W/third status -s -b
git -C $M/repo.git archive main | tar t
git -C $M/repo.git branch -a
git ls-remote $M/repo.git
git -C $M/repo.git verify-pack -s $M/repo.git/objects/pack/*.idx
