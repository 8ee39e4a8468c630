begin_run
test $(variable LD_AUDIT) = $(dirname $CULVERT)/libculvert.so && echo the library
env -i "CULVERT_RUN=$(variable CULVERT_RUN)" "LD_AUDIT=$(variable LD_AUDIT)" cat $W/b/f
env -i $(cat $W/environment) cat $W/b/f
rm -r /run/mine/culvert-libraries
env -i $(cat $W/environment) cat $W/b/f
end_run
