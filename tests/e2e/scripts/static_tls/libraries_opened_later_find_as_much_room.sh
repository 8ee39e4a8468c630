./load ./libsmall.so
./load ./libother.so
./load ./liblarge.so
LD_PRELOAD=$W/liblarge.so ./load ./libsmall.so
LD_PRELOAD=$W/libother.so ./load ./libsmall.so
