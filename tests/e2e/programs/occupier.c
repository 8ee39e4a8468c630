/* An auditor (LD_AUDIT) that takes the addresses from AT on, for who comes behind it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

unsigned la_version(unsigned version) {
    const char *at = getenv("AT");
    if (at)
        mmap((void *)strtoul(at, NULL, 16), 1 << 20, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return version;
}
