cd $M && echo one > log && mkfifo $W/lines
tail -n +1 -F log > $W/lines 2> $W/said &
while read -r line; do
    echo "$line"
    case $line in
        one) echo two >> log ;;
        two)
            mv log log.1
            echo three > log
            ;;
        three) echo four >> log ;;
        four)
            rm log
            echo five > log
            ;;
        five) break ;;
    esac
done < $W/lines
kill $! 2> /dev/null
wait $! 2> /dev/null
grep inotify $W/said
rm $W/lines $W/said
