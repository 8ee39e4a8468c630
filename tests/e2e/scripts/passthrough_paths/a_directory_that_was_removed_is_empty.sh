mkdir $M/other
cd $M/other
rmdir $M/other
ls
echo x > f
/bin/pwd
cd $M
/bin/pwd
