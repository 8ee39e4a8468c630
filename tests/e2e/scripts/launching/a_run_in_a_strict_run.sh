cd $W
mkdir s t; echo outer > s/f; echo inner > t/f
$culvert run true
$culvert run --strict --no-private -v s:a -- $culvert run --no-private -v t:b -- cat a/f b/f
$culvert run --strict --no-private -v s:a -- sh -c "$culvert run --no-private -v $W/a:b -- cat b/f; $culvert version > /dev/null; echo \$?"
