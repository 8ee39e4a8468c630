/* What programs do to files, in two processes, over exec, by mappings and copies: prints what came
 * of it, the same on any file system. Arguments: a directory; `exec` where programs that lie in it
 * can be run. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) \
    ({ \
        __typeof__(call) done = (call); \
        if ((long)done == -1) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(errno)); \
            exit(1); \
        } \
        done; \
    })

enum { FAR = 70000, LENGTH = 100000 };

static void put(const char *name, const char *text)
{
    int fd = MUST(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    MUST(write(fd, text, strlen(text)));
    MUST(close(fd));
}

/* The file at a descriptor, from `offset` on, at most 40 bytes. */
static const char *bytes(int fd, long offset)
{
    static char text[41];
    text[MUST(pread(fd, text, 40, offset))] = 0;
    return text;
}

static void list(const char *name)
{
    struct dirent **all;
    int count = MUST(scandir(name, &all, NULL, alphasort));
    for (int i = 0; i < count; i++)
        if (all[i]->d_name[0] != '.')
            printf("%s ", all[i]->d_name);
    printf("\n");
}

static char *mapped(const char *name, int *fd)
{
    *fd = MUST(open(name, O_RDWR | O_CREAT, 0644));
    if (!lseek(*fd, 0, SEEK_END))
        MUST(ftruncate(*fd, LENGTH));
    return MUST(mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0));
}

/* The second program, which inherits descriptor `fd`. */
static int second(int fd)
{
    char text[7] = "";
    int own;
    MUST(read(fd, text, 6));
    printf("inherited %s\n", text);
    MUST(write(fd, "-second-", 8));
    char *at = mapped("dir/mapped", &own);
    printf("sees %.5s %.4s\n", at, at + FAR);
    memcpy(at + 5, "bbbb", 4);
    MUST(rename("dir/old", "dir/new"));
    return 0;
}

/* Copies this program into the directory, to be run there. */
static void install(const char *name)
{
    int from = MUST(open("/proc/self/exe", O_RDONLY));
    int to = MUST(open(name, O_WRONLY | O_CREAT | O_EXCL, 0755));
    char block[8192];
    ssize_t count;
    while ((count = MUST(read(from, block, sizeof block))))
        MUST(write(to, block, (size_t)count));
    MUST(close(to));
    MUST(close(from));
}

static int ended(pid_t child)
{
    int status = -1;
    MUST(waitpid(child, &status, 0));
    return status;
}

static void copy(void)
{
    int from = MUST(open("dir/mapped", O_RDONLY));
    int to = MUST(open("dir/copy", O_RDWR | O_CREAT | O_TRUNC, 0600));
    off_t offset = 30000;
    for (long left = 50000; left;) {
        long count = MUST(copy_file_range(from, &offset, to, NULL, (size_t)left, 0));
        if (!count)
            break;
        left -= count;
    }
    struct stat found;
    MUST(fstat(to, &found));
    printf("copied %ld %.4s\n", (long)found.st_size, bytes(to, FAR - 30000));
    MUST(ftruncate(to, 7));
    MUST(stat("dir/copy", &found));
    printf("size %ld\n", (long)found.st_size);
    char *at = MUST(mmap(NULL, 7, PROT_READ, MAP_PRIVATE, from, 0));
    printf("privately %.7s\n", at);
}

int main(int count, char **word)
{
    const char *self = word[0];
    if (!strcmp(word[1], "second"))
        return second(atoi(word[2]));
    MUST(chdir(word[1]));
    MUST(mkdir("dir", 0755));
    for (int i = 0; i < 12; i++) {
        char name[20], text[10];
        sprintf(name, "dir/file%d", i);
        sprintf(text, "%d\n", i);
        put(name, text);
    }
    put("dir/old", "");
    for (int i = 0; i < 12; i += 3) {
        char name[20];
        sprintf(name, "dir/file%d", i);
        MUST(unlink(name));
    }
    MUST(rename("dir/file1", "dir/file2"));
    list("dir");

    int fd, shared = MUST(open("dir/shared", O_RDWR | O_CREAT, 0644));
    char *at = mapped("dir/mapped", &fd);
    memcpy(at, "aaaaa", 5);
    memcpy(at + FAR, "far.", 4);
    MUST(msync(at, LENGTH, MS_SYNC));
    MUST(write(shared, "first-rest", 10));
    MUST(lseek(shared, 0, SEEK_SET));
    if (count > 2 && !strcmp(word[2], "exec"))
        install(self = "dir/program");
    fflush(stdout);
    pid_t child = MUST(fork());
    if (!child) {
        char number[12];
        sprintf(number, "%d", shared);
        execl(self, self, "second", number, NULL);
        printf("exec: %s\n", strerror(errno));
        return 9;
    }
    printf("status %d offset ", ended(child));
    printf("%ld\n", (long)MUST(lseek(shared, 0, SEEK_CUR)));
    printf("shared %s mapped %.9s\n", bytes(shared, 0), at);
    printf("renamed %d %d\n", access("dir/old", F_OK), access("dir/new", F_OK));

    fflush(stdout);
    child = MUST(fork());
    if (!child) {
        MUST(write(shared, "child", 5));
        memcpy(at + 9, "c", 1);
        put("dir/by-child", "child");
        return 0;
    }
    printf("status %d\n", ended(child));
    printf("after fork %s mapped %.10s\n", bytes(shared, 0), at);
    copy();

    int held = MUST(open("dir/by-child", O_RDWR));
    struct stat found;
    MUST(unlink("dir/by-child"));
    MUST(write(held, "CH", 2));
    MUST(fstat(held, &found));
    printf("unlinked %s %d\n", bytes(held, 0), (int)found.st_nlink);
    MUST(mkdir("dir/sub", 0755));
    put("dir/sub/f", "f");
    MUST(rename("dir/sub", "moved"));
    int refused = rmdir("moved") == -1 ? errno : 0;
    printf("full: %s\n", strerror(refused));
    MUST(unlink("moved/f"));
    MUST(rmdir("moved"));
    refused = stat("dir/none", &found) == -1 ? errno : 0;
    printf("none: %s\n", strerror(refused));
    return 0;
}
