cd "$0" && if test -e ok; then test "$(cat ok)" = ok && echo RIGHT; else cat a && echo RIGHT; fi
timeout 25 find . -printf '%p %y %s\n' | head -n 5000 | cut -c 1-200
timeout 25 find . -type f -size -10M -exec cat {} + | wc -c
head -c 10 zeros s 2> /dev/null | wc -c
cat f
cat secret.txt
true
