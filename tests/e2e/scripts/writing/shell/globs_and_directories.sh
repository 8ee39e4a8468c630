mkdir -p a/b/c 'with space' .hidden
touch a/1 a/2 a/b/3 a/b/c/4 'with space/x y' .hidden/h
echo *
echo .*
echo */
echo a/?
shopt -s globstar nullglob
echo **/*
echo **/[0-9]
echo none*
cd a/b
pwd
cd ..
pwd -P
pushd b/c > /dev/null
pwd
popd > /dev/null
cd -P ../a/./b/../b
pwd
cd $M
(
    cd a
    rm -r b
    echo *
)
if cd a/b 2> /dev/null; then echo THERE; fi
[ -d a ] && [ -f a/1 ] && [ ! -e a/b ] && [ -O a/1 ] && [ -w a/1 ] && [ ! -x a/1 ] && echo tests
touch -d '2001-02-03 04:05:06' old
[ a/1 -nt old ] && [ old -ot a/1 ] && [ a/1 -ef a/../a/1 ] && echo times
stat -c %y old
umask 077
echo x > private
mkdir privated
stat -c '%a %n' private privated
umask 000
touch open
stat -c %a open
