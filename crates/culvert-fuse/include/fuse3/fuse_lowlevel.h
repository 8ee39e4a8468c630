#include "../fuse_lowlevel.h"
