#include "../fuse_log.h"
