cd $M
mkdir bin lib
cp @own@ bin/own
cp @again@ bin/again
cp @fixed@ bin/again-static
@script@
