run true
perf record -N -q -e cpu-clock -o $W/native true > $W/said 2>&1 || { echo not tested: $(tail -1 $W/said); exit; }
# perf's own store (not used: -N) takes links to libraries, which changes them for all other tests.
# The second time all code is an image's.
run perf record -N -q -e cpu-clock -F 5000 -o $W/inside $IMAGES busy 2>&1
perf report --stdio -i $W/inside 2> /dev/null > $W/report
grep -q '\] *_*random' $W/report && echo random || cat $W/report
run perf report --stdio -i $W/inside 2> /dev/null | grep -q '\] *_*random' && echo random
