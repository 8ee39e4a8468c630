touch @source@/f
mkdir @source@/d
cd @source@
stat -c '%n %w' f d
cd @target@
stat -c '%n %w' f d
