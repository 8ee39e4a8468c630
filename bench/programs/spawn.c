/* Microseconds to start a program and wait for its end, two programs in turn: spawn N A... --- B...
 * For each, one line: the median of the time that passed, and of the processor time of the program,
 * which other work on the machine hardly changes. A third line: the medians of the differences B -
 * A of neighbours. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

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

static double used(struct timeval t)
{
    return t.tv_sec * 1e6 + t.tv_usec;
}

static double once(char **argv, double *processor)
{
    pid_t pid;
    int status;
    struct rusage usage;
    double start = now();
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) {
        fprintf(stderr, "%s: cannot be started, or failed\n", argv[0]);
        exit(1);
    }
    *processor = used(usage.ru_utime) + used(usage.ru_stime);
    return now() - start;
}

static double median(double *values, int n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    char **a = argv + 2, **b = NULL;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "---") == 0) {
            argv[i] = NULL;
            b = argv + i + 1;
            break;
        }
    double *times[6], ignored;
    for (int i = 0; i < 6; i++)
        times[i] = calloc(n, sizeof(double));
    once(a, &ignored);
    if (b)
        once(b, &ignored);
    for (int i = 0; i < n; i++) {
        times[0][i] = once(a, &times[1][i]);
        if (b) {
            times[2][i] = once(b, &times[3][i]);
            times[4][i] = times[2][i] - times[0][i];
            times[5][i] = times[3][i] - times[1][i];
        }
    }
    for (int i = 0; i < (b ? 6 : 2); i += 2) {
        double passed = median(times[i], n), processor = median(times[i + 1], n);
        printf("%.2f %.2f\n", passed, processor);
    }
    return 0;
}
