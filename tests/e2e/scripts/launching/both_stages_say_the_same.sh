# What the command says and answers is what the whole command says: of each line of words.
cd $W
mkdir full s; echo x > full/f; echo x > s/f; tar cf a.tar s; echo text > text; ln -s nowhere dangling
export HOME=$W
while read -r words; do
    for command in culvert culvert-full; do
        eval "$culvert $words" > $command.out 2>&1 < /dev/null
        echo $? >> $command.out
        culvert=${culvert%-full}-full
    done
    culvert=${culvert%-full}
    cmp culvert.out culvert-full.out > /dev/null || { echo "$words"; diff culvert.out culvert-full.out; }
done << 'WORDS'
--version
--help
run --help
help run
nonsense
''
run
run --
run ''
run -- ''
run -
run -v
run -v a
run -v :t true
run -v s: true
run -v s:new:nothing true
run -v s:new:ro,,x true
run -v nothing:new true
run -v s:full true
run -v s:text true
run -v s:dangling true
run -v s:dangling/x true
run -v s:x/../y true
run -v s:s true
run -v s:/ true
run -v s:new -v s:new true
run -v s/f:new true
run -v text:new true
run -v /dev/null:new true
run -v s:new -- no-such-command
run -v s:new -- ./no-such-command
run -v s:new -- ./text
run -v s:new -- ./s
run -v s:new -- cat new/f
run -v s:new -- cat new/nothing
run -v s:new cat ./new/f
run -v s/:./new// ls new
run -v s:new ls -la --time-style=+ new/f
run -v s:new -- sh -c 'exit 7'
run -v a.tar:new cat new/s/f
run --mount type=nosuch,source=s,target=new true
run --mount type=passthrough,source=s,source=s,target=new true
run --mount type=memory,target=new sh -c 'echo x > new/f; cat new/f'
run --mount target=new true
run --fast true
run --strict=yes true
run --page-memory=0 true
drivers nothing
doctor --xml
mount
umount
list
WORDS
echo done
