/* Where the bytes of a file in memory (type=memory) lie: for programs that hand them to devices, or
 * to others, without a copy. What CRUISE has as cruise_get_data_region and cruise_get_chunk_list.
 *
 *     struct culvert_regions regions;
 *     uint64_t start = 0;
 *     while (culvert_memory_regions(fd, start, &regions) == 0 && regions.count > 0) {
 *         for (uint64_t i = 0; i < regions.count; i++)
 *             use(&regions.region[i]);
 *         start = regions.next;
 *     }
 *
 * What they say holds until the file is written to, cut, mapped or removed. Holes have no region.
 */
#ifndef CULVERT_MEMORY_H
#define CULVERT_MEMORY_H

#include <stdint.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In which file bytes lie. */
enum culvert_region_kind {
    /* That of the file system, which lies in memory. */
    CULVERT_IN_MEMORY = 0,
    /* That of the directory that spill= names. */
    CULVERT_IN_SPILL = 1,
    /* A file of its own: it is mapped, or was. Holes are part of it. */
    CULVERT_IN_OWN_FILE = 2
};

/* Bytes of a file that lie behind each other. */
struct culvert_region {
    uint64_t offset;      /* where they begin in the file */
    uint64_t length;      /* how many */
    uint64_t address;     /* of the first in this process; 0: in a file of its own, on a kernel mount */
    uint64_t file_offset; /* where they begin in the file that they lie in */
    uint64_t file;        /* which that is: enum culvert_region_kind */
};

struct culvert_regions {
    uint64_t next;  /* where to go on asking */
    uint64_t count; /* how many there are here */
    struct culvert_region region[64];
};

struct culvert_region_file {
    uint32_t file;
    uint32_t length;
    char path[4096];
};

#define CULVERT_REGIONS _IOWR('C', 0x80, struct culvert_regions)
#define CULVERT_REGION_FILE _IOWR('C', 0x81, struct culvert_region_file)

/* The regions of the file that fd is open on, from byte start on, as many as there is room for.
 * 0; -1 and errno: ENOTTY where it is no file in memory. */
static inline int culvert_memory_regions(int fd, uint64_t start, struct culvert_regions *regions)
{
    regions->next = start;
    return ioctl(fd, CULVERT_REGIONS, regions);
}

/* The path of the file that a region lies in, which ends in NUL. 0; -1 and errno: ENOENT where the
 * file system has no such file. */
static inline int culvert_memory_file(int fd, uint64_t file, struct culvert_region_file *named)
{
    named->file = (uint32_t)file;
    return ioctl(fd, CULVERT_REGION_FILE, named);
}

#ifdef __cplusplus
}
#endif

#endif
