/* Microseconds to start a program and wait for its end, two programs in turn: spawn N A... --- B...
   Prints the median of each. Without `---` only A. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static double once(char **argv)
{
    pid_t pid;
    int status;
    double start = now();
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "%s: cannot be started, or failed\n", argv[0]);
        exit(1);
    }
    return now() - start;
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
    double *ta = malloc(n * sizeof *ta), *tb = malloc(n * sizeof *tb);
    once(a);
    if (b)
        once(b);
    for (int i = 0; i < n; i++) {
        ta[i] = once(a);
        if (b)
            tb[i] = once(b);
    }
    qsort(ta, n, sizeof *ta, ascending);
    printf("%.2f\n", ta[n / 2]);
    if (b) {
        qsort(tb, n, sizeof *tb, ascending);
        printf("%.2f\n", tb[n / 2]);
    }
    return 0;
}
