/* The table of functions, which are in keyvalue.go. */
#include "_cgo_export.h"
#include <culvert/driver.h>

#define HAS(name) .name = (void *)kv_##name
const struct culvert_driver culvert_driver = {
    .version = CULVERT_DRIVER_VERSION,
    .size = sizeof culvert_driver,
    .flags = CULVERT_KEEPS_UNLINKED,
    HAS(getattr),  HAS(getdirents), HAS(open),     HAS(close),    HAS(read),
    HAS(write),    HAS(ftruncate),  HAS(fgetattr), HAS(truncate), HAS(unlink),
    HAS(rename),   HAS(chmod),      HAS(chown),    HAS(utime),    HAS(getxattr),
    HAS(setxattr), HAS(listxattr),  HAS(removexattr),
};
