export HOME=$W GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2020-01-01 00:00:00 +0000' GIT_COMMITTER_DATE='2020-01-01 00:00:00 +0000'
git init -q -b main r
cd r
git config core.packedGitWindowSize 65536
git config core.packedGitLimit 262144
git config index.version 4
git config gc.writeCommitGraph true
git config core.preloadIndex true
for i in $(seq COUNT); do
    mkdir -p d$((i % 7))
    seq $i $((i * 40)) > d$((i % 7))/f$i
    head -c $((i * 997)) /dev/zero | tr '\0' $((i % 10)) >> d$((i % 7))/f$((i / 2))
    git add -A
    git commit -q -m $i
done
git repack -q -a -d -f --depth=20 --window=20 --write-bitmap-index
git multi-pack-index write
git commit-graph write --reachable --changed-paths
git gc -q --prune=now
git fsck --full --strict
git multi-pack-index verify
git commit-graph verify
git log --stat --format=%s | md5sum
git rev-list --objects --all --use-bitmap-index --count
git clone -q --no-local . ../c
cd ../c
git fsck --full
git status --short
git log --oneline -- d3 | wc -l
git blame d1/f1 | wc -l
git verify-pack .git/objects/pack/*.idx
cd ..
git clone -q --bare --shared r s
git -C s repack -q -a -d
git -C s fsck
diff -r r/d2 c/d2
git -C c bundle create -q ../b --all
git -C c bundle verify -q ../b
