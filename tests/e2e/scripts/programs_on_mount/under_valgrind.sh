echo content > f
valgrind -q --log-file=/dev/null /bin/echo a
echo $?
valgrind -q --log-file=/dev/null /bin/sh -c 'cat f; echo $?'
