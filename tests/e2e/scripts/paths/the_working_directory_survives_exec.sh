cd $M/dir/sub
bash -c 'pwd; cat deep.txt; exec bash -c "cat ../a.txt; cd ..; exec /bin/pwd"'
env -i /bin/cat deep.txt
# Who has never asked for it hands it on.
env env nice env /bin/pwd
env env cat ../a.txt
(
    cd ../../links/dir
    /bin/pwd
    /bin/pwd -L
    cat a.txt
)
cd / && cat $M/hello.txt
env env /bin/pwd
cd -
cd $O/in-dir
/bin/pwd
cat ../hello.txt
