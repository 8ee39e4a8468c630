mksquashfs tree image -quiet -no-progress > said
run type=fuse.squashfuse,source=image 'diff -r tree $M; touch $M/new 2> said && exit 1; test ! -e $M/new'
run "type=fuse,\"command=squashfuse image %m\"" 'diff -r tree $M'
