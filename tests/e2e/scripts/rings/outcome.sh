umask 022
mkdir -p $W/outside
cd $M && OUTSIDE=$W/outside exec @program@ @name@
