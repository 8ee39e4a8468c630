genisoimage -quiet -R -o image tree
run type=fuse.fuseiso,source=image 'diff -r tree $M; test $(readlink $M/link) = file'
