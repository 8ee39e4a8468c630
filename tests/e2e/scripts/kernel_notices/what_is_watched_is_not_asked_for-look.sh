find @target@ -ls
stat @target@/d/none
for i in 1 2 3; do cat @target@/d/file; done
