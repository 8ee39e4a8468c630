/* Opens N descriptors on a mount, starts a program, and finds every one as it was.
   Usage: many_descriptors N FILE DIRECTORY */
#include "probe.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    if (argc == 5) {
        /* The second life, after exec: every descriptor at its own offset. */
        int first = atoi(argv[4]), wrong = 0;
        for (int i = 0; i < n; i++) {
            char two[2];
            if (lseek(first + i, 0, SEEK_CUR) != i || read(first + i, two, 2) != 2)
                wrong++;
        }
        printf("after exec: wrong %d\n", wrong);
        return 0;
    }
    close_range(3, ~0u, 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)n + 100) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < (rlim_t)n + 100)
            die("RLIMIT_NOFILE");
    }
    int first = must_open(argv[2], O_RDONLY), wrong = 0;
    for (int i = 1; i < n; i++)
        if (must_open(argv[2], O_RDONLY) != first + i)
            die("numbers are not consecutive");
    for (int i = 0; i < n; i++)
        lseek(first + i, i, SEEK_SET);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n; i++)
            wrong += lseek(first + i, 0, SEEK_CUR) != i;
        printf("after fork: wrong %d\n", wrong);
        fflush(stdout);
        /* The child moves every shared offset by one and back. */
        char one;
        for (int i = 0; i < n; i++)
            wrong += read(first + i, &one, 1) != 1;
        _exit(wrong != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    for (int i = 0; i < n; i++)
        wrong += lseek(first + i, -1, SEEK_CUR) != i;
    printf("child %x, offsets moved by the child: wrong %d\n", status, wrong);
    fflush(stdout);
    char number[16];
    sprintf(number, "%d", first);
    execl(argv[0], argv[0], argv[1], argv[2], argv[3], number, NULL);
    die("exec");
}
