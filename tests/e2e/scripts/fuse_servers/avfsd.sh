tar czf image.tar.gz -C tree .
run type=fuse.avfsd "diff -r tree \$M$PWD/image.tar.gz#"
