#include "../fuse_opt.h"
