/* Microseconds to start a program that inherits N descriptors: inherit FILE ROUNDS N... For each N,
 * one line: N, the first start (where descriptors are made ready to be shared), the median of the
 * others. Processor time of this process and of the child together: waiting for other work on the
 * machine does not count. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double used(const struct rusage *usage)
{
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 + usage->ru_utime.tv_usec + usage->ru_stime.tv_usec;
}

static double own(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double once(void)
{
    char *argv[] = { "/bin/true", NULL };
    pid_t pid;
    int status;
    struct rusage child;
    double start = own();
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0 || wait4(pid, &status, 0, &child) != pid || status != 0)
        exit(1);
    return own() - start + used(&child);
}

int main(int argc, char **argv)
{
    int rounds = atoi(argv[2]);
    double *times = malloc(rounds * sizeof *times);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < 5; i++)
        once();
    for (int a = 3; a < argc; a++) {
        int n = atoi(argv[a]);
        for (int i = 0; i < n; i++)
            if (open(argv[1], O_RDONLY) < 0) {
                perror(argv[1]);
                return 1;
            }
        double first = once();
        for (int i = 0; i < rounds; i++)
            times[i] = once();
        qsort(times, rounds, sizeof *times, ascending);
        printf("%d %.2f %.2f\n", n, first, times[rounds / 2]);
        fflush(stdout);
        close_range(3, ~0u, 0);
    }
    return 0;
}
