umask 022
printf %s '@fsx@' > $W/conf
for seed in 1 2 3; do @fsx_2@ -f $W/conf -N 3000 -S $seed $M/f || exit 1; done
