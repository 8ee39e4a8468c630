/* Lists each directory that is named: how many names it has, or the error. readdir(3) takes some
 * errors for the end, so by the call itself. */
#include "probe.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char buffer[4096];
        int fd = open(argv[i], O_RDONLY | O_DIRECTORY);
        long got = fd, names = 0;
        while (got >= 0 && (got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
            for (long at = 0; at < got; at += ((struct dirent64 *)(buffer + at))->d_reclen)
                names++;
        if (got < 0)
            printf("%s: %s\n", argv[i], error_name(errno));
        else
            printf("%s: %ld names\n", argv[i], names);
    }
    return 0;
}
