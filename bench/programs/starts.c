/* What starting a process costs: starts vfork|fork|exit N [PROGRAM [ARGUMENT]...]
 * A child is made by vfork or fork and executes PROGRAM, or ("exit") is made by fork and ends at
 * once. Prints medians of N: the microseconds to the end of the child, its page faults (with those
 * of what it waited for itself), and those of this process meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double faults(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, int n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 0, status;
    if (n < 1 || (strcmp(argv[1], "exit") != 0 && argc < 4))
        return 2;
    int by_vfork = strcmp(argv[1], "vfork") == 0, ends = strcmp(argv[1], "exit") == 0;
    /* Programs may say something; it goes nowhere. */
    FILE *out = fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "w");
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(nowhere, fd);
    double *taken[3];
    for (int i = 0; i < 3; i++)
        taken[i] = calloc(n, sizeof(double));
    for (int i = -1; i < n; i++) {
        double children = faults(RUSAGE_CHILDREN), own = faults(RUSAGE_SELF), start = now();
        pid_t pid = by_vfork ? vfork() : fork();
        if (pid == 0) {
            if (!ends)
                execv(argv[3], argv + 3);
            _exit(ends ? 0 : 127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
        /* The first only warms up. */
        if (i < 0)
            continue;
        taken[0][i] = now() - start;
        taken[1][i] = faults(RUSAGE_CHILDREN) - children;
        taken[2][i] = faults(RUSAGE_SELF) - own;
    }
    fprintf(out, "%.2f %.0f %.0f\n", median(taken[0], n), median(taken[1], n), median(taken[2], n));
    return fclose(out) != 0;
}
