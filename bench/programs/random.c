/* Microseconds of a read of 4 KiB at a random place: random FILE COUNT SECONDS. Stops after
 * SECONDS. Prints the median, the mean and how many there were. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDONLY), count = atoi(argv[2]), done = 0;
    double limit = now() + atof(argv[3]) * 1e6, *times = malloc(count * sizeof *times), total = 0;
    off_t size = lseek(fd, 0, SEEK_END);
    uint64_t state = 88172645463325252u;
    char block[4096];
    if (fd < 0 || size < 4096) {
        perror(argv[1]);
        return 1;
    }
    while (done < count && now() < limit) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        off_t at = (off_t)(state % (uint64_t)(size / 4096)) * 4096;
        double start = now();
        if (pread(fd, block, sizeof block, at) != sizeof block) {
            perror("pread");
            return 1;
        }
        total += times[done++] = now() - start;
    }
    qsort(times, done, sizeof *times, ascending);
    printf("%.2f %.2f %d\n", times[done / 2], total / done, done);
    return 0;
}
