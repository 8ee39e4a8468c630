umask 0
cd $M
chmod 777 .
echo old text > mapped
python3 -c "@maps@@stores@"
cat mapped
rm mapped
