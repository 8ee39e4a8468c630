$C mount --restart $D $T \
    && python3 @cargo_manifest_dir@/programs/served_again.py $T 8 $(pgrep -of "culvert mount.*$T\$")
$C umount $T
