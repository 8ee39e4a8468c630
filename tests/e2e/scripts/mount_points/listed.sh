@listing@ @at@/host @at@/host/none @at@/host/none/x
cd @at@
find host | sort
echo host/* host/none/*
cd host/none
ls -R | sort
ls ..
cat new/g
rmdir new
mkdir new
cd ..
mv none other
ls
