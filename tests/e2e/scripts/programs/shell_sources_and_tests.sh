. $M/config.sh
greet $SETTING
cd $M
for f in *; do
    test -d $f && echo $f/
    test -f $f && test -r $f && test -s $f && echo $f
    test -x $f || echo no $f
done
[ hello.c -nt lib.c ]
echo $?
[ hello.c -ef ./hello.c ]
echo $?
[ -w hello.c ]
echo $?
bash bin/script.sh
sh -c '. ./config.sh; greet sh'
echo $(< words) | md5sum
while read -r l; do n=$((n + 1)); done < words
echo $n
cd bin && cd ../inc && cd - && pushd ../lib && dirs && popd
command -v ./script.sh
type -P ./hello
hash
select x in a; do break; done < /dev/null 2> /dev/null
compgen -f s
