run sh -c "rm -r /run/mine/culvert-libraries; cat $W/b/f; sh -c 'cat $W/b/f; cat $W/b/f'
    cat /proc/self/maps | grep -c culvert-libraries"
copy | wc -l
run cat $W/b/f
copy | wc -l
