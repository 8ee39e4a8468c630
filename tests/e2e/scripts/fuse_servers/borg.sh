export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
borg init -e none repository
borg create repository::one tree
run type=fuse.borg,source=repository::one 'diff -r tree $M/tree; touch $M/new 2> said && exit 1; test ! -e $M/new'
