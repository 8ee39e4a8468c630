git init -q r
cd r
for i in $(seq 12); do
    seq $i 200 > f$i
    git add .
    git commit -qm $i
done
cd ..
git clone -q r c
git clone -q --bare r b.git
git clone -q --no-local --depth 3 file://$M/r s
git -C s log --format=%s
git -C c gc -q
git -C c count-objects -v | grep -E '^(count|in-pack|packs)'
git -C c repack -adq
git -C c prune
git -C c fsck --full
cd c
echo new > new
git add new
git commit -qm new
git push -q origin HEAD:refs/heads/pushed
git -C ../r log -1 --format=%s pushed
git -C ../b.git fetch -q ../c main:fetched
git -C ../b.git log -1 --format=%s fetched
git pack-refs --all
git for-each-ref
git archive HEAD | tar t | wc -l
git rev-parse HEAD
git grep -c 199 | wc -l
git blame -s f3 | head -n 2
git log --stat -2 | tail -n 5
git -C ../r branch -d pushed -q -f 2>&1 | wc -l
git ls-files -s | md5sum
git read-tree HEAD
git update-index --refresh
git status -s
