# Stores into shared mappings leave the times there, so that a changed file looks the same.
library=/dev/shm/libp.so
build 1000 $library
build 2000 $W/new.so
settle
run $IMAGES probe $library $W/b/f
run $IMAGES probe $library $W/b/f
echo $(image | wc -l) images
cat $W/new.so > $library
run $IMAGES probe $library $W/b/f
