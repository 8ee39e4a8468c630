/* Prints its arguments, its environment, its descriptors, and what maps of it name. */
#include "probe.h"

extern char **environ;

int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        printf("argument %s\n", argv[i]);
    for (char **v = environ; *v; v++)
        printf("variable %s\n", *v);
    for (int fd = 0; fd < 1100; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("descriptor %d\n", fd);
    printf("from getenv: %s %s\n", getenv("LD_AUDIT") ? "LD_AUDIT" : "-", getenv("LD_PRELOAD") ? "LD_PRELOAD" : "-");
    DIR *fds = opendir("/proc/self/fd");
    int n = 0;
    while (fds && readdir(fds))
        n++;
    printf("entries of /proc/self/fd %d\n", n);
    return 0;
}
