# Of another one's that begins like ours nothing is taken.
run sh -c 'CV_AUDIT_LOG=here sh -c "env | grep ^CV_"'
# One of that name was there before: the library's own is taken out all the same.
CV_AUDIT=/none run sh -c "env | grep -c _AUDIT
    rm -r /run/mine/culvert-libraries; sh -c 'cat $W/b/f'" 2>&1
# What is not intercepted hands the library on, not the copy.
run true
run busybox env 2> $W/error | grep -c -E '^CV_AUDIT|culvert-libraries'
