umask 022
cd $M && @program@ @group@
cat f | md5sum
ls -l --time-style=+ .
