cd @target@ && server=$(cat /proc/@keeper@/task/@keeper@/children | tr -d ' ')
strace -qq -f -p $server -e trace=writev -e inject=writev:signal=KILL:when=@number@ -o @target@.trace 2> /dev/null &
tracer=$!
until grep -q "^TracerPid:.*[1-9]" /proc/$server/status 2> /dev/null \
    || [ ! -d /proc/$server ]; do :; done
python3 -c "@program@"
kill $tracer 2> /dev/null
wait $tracer
ls -A
