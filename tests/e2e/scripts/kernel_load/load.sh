mkdir -p $D/source $D/work
$C mount @mount@ $T || exit 1
FSX=@fsx@ python3 @cargo_manifest_dir@/programs/loads.py @name@ $T $D/work @factor@
$C umount $T || echo busy
