/* Microseconds of one request or operation: hosts OPERATION DIRECTORY COUNT [PROCESSES]. With
 * several processes, of all of them together: the time divided by what they have done. The median of
 * nine batches. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { batches = 9, piece = 128 * 1024, pieces = 128 };

static char data[piece];
static char path[4096];
static const char *directory;
static int opened;

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

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        _exit(1);
    }
}

static void one(const char *operation)
{
    struct stat st;
    if (strcmp(operation, "fstat") == 0) {
        must(fstat(opened, &st) == 0, "fstat");
    } else if (strcmp(operation, "stat") == 0) {
        must(stat(path, &st) == 0, "stat");
    } else if (strcmp(operation, "pread") == 0) {
        static off_t at;
        must(pread(opened, data, 4096, at) == 4096, "pread");
        at = (at + 4096) % (8 * piece);
    } else if (strcmp(operation, "pwrite") == 0) {
        static off_t at;
        static int fd = -1;
        if (fd < 0)
            must((fd = open(path, O_WRONLY)) >= 0, "open");
        must(pwrite(fd, data, 4096, at) == 4096, "pwrite");
        at = (at + 4096) % (8 * piece);
    } else if (strcmp(operation, "list") == 0) {
        char names_in[4200];
        snprintf(names_in, sizeof names_in, "%s/listed", directory);
        DIR *listed = opendir(names_in);
        must(listed != 0, "opendir");
        int names = 0;
        while (readdir(listed))
            names++;
        must(names > 100 && closedir(listed) == 0, "readdir");
    } else if (strcmp(operation, "relist") == 0) {
        static DIR *listed;
        char names_in[4200];
        snprintf(names_in, sizeof names_in, "%s/listed", directory);
        must(listed != 0 || (listed = opendir(names_in)) != 0, "opendir");
        rewinddir(listed);
        int names = 0;
        while (readdir(listed))
            names++;
        must(names > 100, "readdir");
    } else if (strcmp(operation, "opened") == 0) {
        int fd = open(path, O_RDONLY);
        must(fd >= 0 && close(fd) == 0, "open");
    } else if (strcmp(operation, "open") == 0) {
        int fd = open(path, O_RDONLY);
        must(fd >= 0 && read(fd, data, 4096) >= 0 && close(fd) == 0, "open");
    } else if (strcmp(operation, "make") == 0) {
        char made[4200];
        snprintf(made, sizeof made, "%s.made", path);
        must(stat(made, &st) != 0, "stat");
        int fd = open(made, O_CREAT | O_EXCL | O_WRONLY, 0644);
        must(fd >= 0 && write(fd, data, 4096) == 4096, "write");
        must(close(fd) == 0 && unlink(made) == 0, "unlink");
    } else if (strcmp(operation, "read") == 0 || strcmp(operation, "write") == 0) {
        int writes = operation[0] == 'w';
        int fd = open(path, writes ? O_WRONLY | O_TRUNC : O_RDONLY);
        must(fd >= 0, path);
        for (int i = 0; i < pieces; i++)
            must((writes ? write(fd, data, piece) : read(fd, data, piece)) == piece, operation);
        must(close(fd) == 0, "close");
    } else {
        fprintf(stderr, "%s?\n", operation);
        _exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *operation = argv[1];
    directory = argv[2];
    int count = atoi(argv[3]), processes = argc > 4 ? atoi(argv[4]) : 1;
    int bulk = strcmp(operation, "read") == 0 || strcmp(operation, "write") == 0;
    double batch[batches];
    int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int go[2];
    for (int p = 0; p < processes; p++) {
        snprintf(path, sizeof path, "%s/file%d", argv[2], p);
        int fd = open(path, O_CREAT | O_RDWR, 0644);
        must(fd >= 0, path);
        struct stat st;
        must(fstat(fd, &st) == 0, "fstat");
        for (int i = st.st_size / piece; i < pieces; i++)
            must(pwrite(fd, data, piece, (off_t)i * piece) == piece, "pwrite");
        close(fd);
    }
    must(pipe(go) == 0, "pipe");
    for (int p = 0; p < processes; p++) {
        if (processes > 1 && fork() != 0)
            continue;
        snprintf(path, sizeof path, "%s/file%d", argv[2], p);
        opened = open(path, O_RDONLY);
        must(opened >= 0, path);
        if (processes == 1)
            break;
        for (int i = 0; i < count / 10; i++)
            one(operation);
        __atomic_add_fetch(shared, 1, __ATOMIC_SEQ_CST);
        char byte;
        must(read(go[0], &byte, 1) == 1, "read");
        for (int i = 0; i < count; i++)
            one(operation);
        _exit(0);
    }
    if (processes > 1) {
        while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) != processes)
            usleep(100);
        double start = now();
        must(write(go[1], data, processes) == processes, "write");
        for (int p = 0, status; p < processes; p++)
            must(wait(&status) > 0 && status == 0, "a child");
        batch[0] = (now() - start) / count / processes / (bulk ? pieces : 1);
        printf("%.3f\n", batch[0]);
        return 0;
    }
    for (int b = -1; b < batches; b++) {
        double start = now();
        for (int i = 0; i < count; i++)
            one(operation);
        if (b >= 0)
            batch[b] = (now() - start) / count / (bulk ? pieces : 1);
    }
    qsort(batch, batches, sizeof *batch, ascending);
    printf("%.3f\n", batch[batches / 2]);
    return 0;
}
