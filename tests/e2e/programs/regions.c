/* Writes a file, asks where its bytes lie, and compares: at their addresses, and in the files that
 * are named for them. Prints how many lie in memory and how many are spilled. */
#include <culvert/memory.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int fd, const char *bytes, size_t length, size_t counts[3])
{
    struct culvert_regions regions;
    char *found = malloc(length);
    uint64_t start = 0, covered = 0;
    memset(counts, 0, 3 * sizeof *counts);
    while (culvert_memory_regions(fd, start, &regions) == 0 && regions.count > 0) {
        for (uint64_t i = 0; i < regions.count; i++) {
            struct culvert_region *region = &regions.region[i];
            struct culvert_region_file named;
            if (region->address &&
                memcmp((void *)region->address, bytes + region->offset, region->length))
                puts("other bytes at the address");
            if (culvert_memory_file(fd, region->file, &named))
                perror("culvert_memory_file");
            int file = open(named.path, O_RDONLY);
            if (file < 0 || pread(file, found, region->length, region->file_offset) !=
                                (ssize_t)region->length ||
                memcmp(found, bytes + region->offset, region->length))
                printf("other bytes in %s\n", named.path);
            close(file);
            covered += region->length;
            counts[region->file] += region->length;
        }
        start = regions.next;
    }
    if (covered != length)
        printf("%llu of %zu bytes\n", (unsigned long long)covered, length);
    free(found);
}

int main(int argc, char **argv)
{
    size_t length = 2000000, counts[3];
    char *bytes = malloc(length);
    struct culvert_regions regions;
    int other = open("/dev/null", O_RDONLY);
    if (culvert_memory_regions(other, 0, &regions) != -1 || errno != ENOTTY)
        puts("regions of /dev/null");
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)(i * 7 + i / 4096 + 1);
    int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
    if (write(fd, bytes, length) != (ssize_t)length)
        perror("write");
    check(fd, bytes, length, counts);
    printf("%s in memory, %s spilled\n", counts[0] ? "some" : "none", counts[1] ? "some" : "none");
    fflush(stdout);
    if (fork() == 0) {
        check(fd, bytes, length, counts);
        return 0;
    }
    wait(NULL);
    return 0;
}
