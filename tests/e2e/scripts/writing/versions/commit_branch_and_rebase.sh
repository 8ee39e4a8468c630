git init -q r
cd r
seq 100 > f
mkdir d
echo x > d/x
ln -s f link
echo '*.o' > .gitignore
touch a.o
chmod +x d/x
git add -A
git commit -qm first
git status -s
git log --format='%H %s'
git switch -qc topic
sed -i 's/50/fifty/' f
git commit -qam topic
git switch -q main
sed -i 's/10/ten/' f
git mv d/x d/y
git commit -qam main
git rebase -q main topic
git log --format='%H %s'
git diff --stat HEAD~2
git switch -q main
git merge -q --no-ff topic -m merge
git log --graph --format=%s
git tag v1
git stash list
echo dirty >> f
git stash -q
git stash pop -q
git status -s
git checkout -q f
git worktree add -q ../w v1
ls ../w
git -C ../w log -1 --format=%h
git worktree list | wc -l
git worktree remove ../w
git reset -q --hard HEAD~1
git reflog | wc -l
git clean -qfdx
ls -A
git fsck --full 2>&1 | sed /dangling/d
git show-ref
