cd @target@
touch f
flock -n f flock -n f true
echo $?
flock -n f true
echo $?
