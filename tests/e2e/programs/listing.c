/* Lists directories in every way: each name with its type, with buffers of every size, position by
 * position. Usage: listing DIRECTORY... */
#include "probe.h"

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

struct linux_dirent {
    unsigned long d_ino;
    unsigned long d_off;
    unsigned short d_reclen;
    char d_name[];
};

static char buffer[65536], *names[4096];
static int count;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print(const char *what)
{
    printf("%s:", what);
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++)
        printf(" %s", names[i]);
    printf("\n");
    count = 0;
}

static void take(const char *name, int type)
{
    names[count] = malloc(strlen(name) + 10);
    sprintf(names[count++], "%s/%d", name, type);
}

static void by_calls(int fd, long number, size_t size)
{
    long n, calls = 0;
    while ((n = syscall(number, fd, buffer, size)) > 0 && ++calls < 5000)
        for (long at = 0; at < n;)
            if (number == SYS_getdents) {
                struct linux_dirent *entry = (void *)(buffer + at);
                take(entry->d_name, buffer[at + entry->d_reclen - 1]);
                at += entry->d_reclen;
            } else {
                struct linux_dirent64 *entry = (void *)(buffer + at);
                take(entry->d_name, entry->d_type);
                at += entry->d_reclen;
            }
    if (n < 0)
        printf("%s ", error_name(errno));
    /* The end stays the end. */
    printf("%ld ", (long)syscall(number, fd, buffer, size));
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        printf("== %d\n", i);
        static const size_t sizes[] = { 8, 32, 40, 300, 4096, sizeof buffer };
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int fd = open(argv[i], O_RDONLY | O_DIRECTORY);
            by_calls(fd, SYS_getdents64, sizes[s]);
            print("getdents64");
            lseek(fd, 0, SEEK_SET);
            by_calls(fd, SYS_getdents, sizes[s]);
            print("getdents, from the beginning");
            close(fd);
        }
        int fd = open(argv[i], O_RDONLY | O_DIRECTORY);
        WORKS(syscall(SYS_getdents64, fd, (void *)8, 4096));
        close(fd);
        /* What follows each position, and what there is after it was left and come back to. */
        DIR *dir = opendir(argv[i]);
        struct dirent *entry;
        static long positions[4096];
        static char *order[4096];
        int total = 0;
        while (positions[total] = telldir(dir), (entry = readdir(dir)))
            order[total++] = strdup(entry->d_name);
        for (int k = total; k >= 0; k--) {
            seekdir(dir, positions[k]);
            entry = readdir(dir);
            const char *name = entry ? entry->d_name : "the end";
            if (strcmp(name, k < total ? order[k] : "the end"))
                printf("position %d: %s\n", k, name);
        }
        rewinddir(dir);
        while ((entry = readdir(dir)))
            take(entry->d_name, entry->d_type);
        print("from the beginning");
        /* A child goes on where its parent was. */
        seekdir(dir, positions[total - 1]);
        int here = dup(dirfd(dir));
        fflush(stdout);
        lseek(here, positions[total - 1], SEEK_SET);
        pid_t child = fork();
        if (child == 0) {
            by_calls(here, SYS_getdents64, 4096);
            printf("%d left\n", count);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        by_calls(here, SYS_getdents64, 4096);
        printf("%d left for its parent\n", count);
        count = 0;
        struct stat found, named;
        for (int k = 0; k < total; k++)
            if (fstatat(dirfd(dir), order[k], &found, AT_SYMLINK_NOFOLLOW) != 0)
                printf("%s: %s\n", order[k], error_name(errno));
            else if (strcmp(order[k], ".") == 0 && (fstat(dirfd(dir), &named) != 0 || named.st_ino != found.st_ino))
                printf("%s is another\n", order[k]);
        closedir(dir);
    }
    return 0;
}
