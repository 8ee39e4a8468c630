exec 2>&1
cd $M
ls hello.txt
cat hello.txt
ls dir > /dev/null
stat -f . > /dev/null
cat lines.txt | wc -l
