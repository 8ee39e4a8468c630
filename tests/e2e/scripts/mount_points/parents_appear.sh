cd @at@
find host | sort
echo host/* host/a/b/*
stat -c %F host/a host/a/b
cd host/a/b/c
pwd
cat f
ls ..
cd ../..
pwd
ls -d */*/f
mkdir -p @at@/host/a/b/c
mkdir b
cat b/d/g
LC_ALL=C touch b/new
sh -c 'cd b && ls'
