export HOME=$W GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@x GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_MERGE_AUTOEDIT=no
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global safe.directory '*'
@script@
cd $M
rm -rf $(find . -maxdepth 2 -name .git) *.git
