cd $M
cp @program@ program
./program program
./program program
@program@ -r $M/program
