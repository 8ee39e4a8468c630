cd $M
echo *
echo */
echo links/*
echo */*.txt
shopt -s globstar dotglob nullglob
echo deep/**/bottom
echo names/*
ls -d -- names/* | cat -v
echo $B/m*
