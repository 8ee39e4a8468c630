cd $M/dir/sub
bash -c 'pwd; cat deep.txt; exec bash -c "cat ../a.txt; cd ..; exec /bin/pwd"'
env -i /bin/cat deep.txt
(
    cd ../../links/dir
    /bin/pwd
    /bin/pwd -L
    cat a.txt
)
cd / && cat $M/hello.txt
cd -
cd $O/in-dir
/bin/pwd
cat ../hello.txt
