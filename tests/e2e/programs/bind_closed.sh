# What root and another user may do on a mount that is for its own user alone.
if [ "$1" = prepare ]; then
    echo one > $2/f
    exit
fi
cat $1/f
# In a run all programs are its user's.
[ $way = run ] && echo refused && exit
setpriv --reuid=65534 --regid=65534 --clear-groups cat $1/f > /dev/null 2>&1 || echo refused
