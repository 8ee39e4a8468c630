printf %s '@pjdfstest@' > conf
d=${1:-$M}
@program@ -c conf -s $W -p $d link::link_count_max
getconf LINK_MAX $d
