cd @target@
look() {
    stat -c '%s %a %h' f
    cat f
    ls
}
printf one > @source@/f
look
look
look
printf longer > @source@/f
look
chmod 600 @source@/f
ln @source@/f @source@/g
look
printf LONGER > @source@/f
look
rm @source@/f
look 2>&1
printf again > @source@/f
look
