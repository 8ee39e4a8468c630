unshare -U true || exit 77
forged /dev/shm/open 711
as 65533 unshare -U env LD_AUDIT=$lib CULVERT_RUN=/dev/shm/open:-1:0 $look
as 65533 unshare -U env CULVERT_RUN=/dev/shm/open:-1:0 $culvert run --no-private -v $evil:$W/none -- $look
as 65533 $culvert run --no-private -v $evil:$real -- unshare -U $look
as 65533 $culvert run --no-private -v $evil:$real -- unshare -Ur $look
