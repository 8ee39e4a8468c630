exec 7< /dev/null
env -i PATH=$PATH LD_LIBRARY_PATH=/nowhere @environment@
env | grep -E '^(CULVERT|LD_)'
set | grep -E '^(CULVERT|LD_)'
ls /proc/self/fd | wc -l
