cd $M/bin
./hello
echo $?
./hello-static
echo $?
./linked
echo $?
./script.sh a b
echo $?
./script.py x y
echo $?
./bad-interpreter
echo $?
./no-shebang q
echo $?
./not-executable
echo $?
./missing
echo $?
cd /
$M/bin/script.sh
PATH=$M/bin:$PATH script.sh z
env -i $M/bin/script.sh
(exec -a other $M/bin/hello)
ldd $M/bin/linked | grep -c answer
LD_LIBRARY_PATH=$M/lib $M/bin/linked
nice $M/bin/hello
xargs -n1 $M/bin/script.sh <<< 'a b'
true
