/* Nanoseconds of one call: calls OPERATION PATH. Prints the median of 101 batches. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
    enum { batches = 101, calls = 2000 };
    double batch[batches];
    char byte[4096];
    struct stat st;
    int fd = open(argv[2], O_RDONLY);
    if (argc != 3 || fd < 0) {
        perror(argv[2]);
        return 1;
    }
    for (int b = -1; b < batches; b++) {
        double start = now();
        if (strcmp(argv[1], "lseek") == 0)
            for (int i = 0; i < calls; i++)
                lseek(fd, 0, SEEK_CUR);
        else if (strcmp(argv[1], "pread") == 0)
            for (int i = 0; i < calls; i++)
                pread(fd, byte, 1, 0);
        else if (strcmp(argv[1], "pread4k") == 0)
            for (int i = 0; i < calls; i++)
                pread(fd, byte, 4096, 0);
        else if (strcmp(argv[1], "fstat") == 0)
            for (int i = 0; i < calls; i++)
                fstat(fd, &st);
        else if (strcmp(argv[1], "access") == 0)
            for (int i = 0; i < calls; i++)
                access(argv[2], F_OK);
        else if (strcmp(argv[1], "stat") == 0)
            for (int i = 0; i < calls; i++)
                stat(argv[2], &st);
        else if (strcmp(argv[1], "open") == 0)
            for (int i = 0; i < calls; i++)
                close(open(argv[2], O_RDONLY));
        else
            return 2;
        if (b >= 0)
            batch[b] = (now() - start) / calls;
    }
    qsort(batch, batches, sizeof *batch, ascending);
    printf("%.2f\n", batch[batches / 2]);
    return 0;
}
