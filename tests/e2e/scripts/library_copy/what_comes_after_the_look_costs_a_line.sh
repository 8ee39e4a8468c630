run true
# noexec by now: the hook sees it.
run sh -c "mount -o remount,bind,noexec /run 2> $W/error || mount -o remount,noexec /run; cat $W/b/f" 2>&1
mount -o remount,exec /run
# Removed after the hook's look: an auditor of nobody's stands for the copy.
begin_run
env -i "CULVERT_RUN=$(variable CULVERT_RUN)" "CV_AUDIT=$(variable LD_AUDIT)" \
    "LD_AUDIT=/run/mine/gone/libculvert.so:$(variable LD_AUDIT)" \
    sh -c "cat $W/b/f; cat $W/b/f" 2> $W/error
grep -c 'ERROR: ld.so: .*/gone/libculvert.so' $W/error
end_run
