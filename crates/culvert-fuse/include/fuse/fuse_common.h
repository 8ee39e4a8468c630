#include "../fuse_common.h"
