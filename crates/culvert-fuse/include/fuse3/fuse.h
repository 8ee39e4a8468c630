#include "../fuse.h"
