cd $M && @program@ write
: > g
cat /proc/self/mountinfo | grep -c " $M ro"
