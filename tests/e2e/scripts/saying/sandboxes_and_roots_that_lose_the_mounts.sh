bwrap --dev-bind / / ls $M
bwrap --ro-bind / / --dev /dev --bind /dev/shm /dev/shm ls $M
