/* A bad pointer is EFAULT, wherever it stands, and never a crash. Usage: efault, with the tree
 * `odd` as the working directory. */
#include "probe.h"
#include <linux/fs.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

static char good[65536];

static void with(const char *name, void *bad)
{
    int fd = must_open("data.bin", O_RDONLY), dir = must_open("dir", O_RDONLY), ends[2];
    pipe(ends);
    printf("== %s\n", name);
    /* Names. */
    SHOW(open(bad, O_RDONLY));
    SHOW(openat(dir, bad, O_RDONLY));
    SHOW(creat(bad, 0600));
    SHOW(syscall(SYS_stat, bad, good));
    SHOW(syscall(SYS_lstat, bad, good));
    SHOW(syscall(SYS_access, bad, R_OK));
    SHOW(syscall(SYS_newfstatat, dir, bad, good, 0));
    SHOW(syscall(SYS_statx, dir, bad, 0, STATX_ALL, good));
    SHOW(readlink(bad, good, 100));
    SHOW(statfs(bad, (void *)good));
    SHOW(truncate(bad, 0));
    SHOW(chmod(bad, 0));
    SHOW(chown(bad, 0, 0));
    SHOW(mkdir(bad, 0));
    SHOW(rmdir(bad));
    SHOW(unlink(bad));
    SHOW(rename(bad, "x"));
    SHOW(rename("hello.txt", bad));
    SHOW(link(bad, "x"));
    SHOW(link("hello.txt", bad));
    SHOW(symlink(bad, "x"));
    SHOW(symlink("x", bad));
    SHOW(chdir(bad));
    SHOW(mknod(bad, S_IFIFO, 0));
    SHOW(getxattr(bad, "user.x", good, 10));
    SHOW(listxattr(bad, good, 10));
    SHOW(execve(bad, NULL, NULL));
    SHOW(syscall(SYS_openat2, dir, bad, good, 24));
    SHOW(syscall(SYS_openat2, dir, "a.txt", bad, 24));
    /* Results. */
    SHOW(read(fd, bad, 100));
    SHOW(read(fd, bad, 0));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(pread(fd, bad, 100, 0));
    SHOW(readv(fd, bad, 1));
    struct iovec first_bad[] = { { bad, 10 }, { good, 10 } }, second_bad[] = { { good, 10 }, { bad, 10 } };
    SHOW(readv(fd, first_bad, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(readv(fd, second_bad, 2));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(preadv(fd, second_bad, 2, 5));
    SHOW(syscall(SYS_stat, "hello.txt", bad));
    SHOW(syscall(SYS_lstat, "hello.txt", bad));
    SHOW(syscall(SYS_fstat, fd, bad));
    SHOW(syscall(SYS_newfstatat, dir, "a.txt", bad, 0));
    SHOW(syscall(SYS_statx, dir, "a.txt", 0, STATX_ALL, bad));
    SHOW(readlink("links/file", bad, 100));
    SHOW(statfs("hello.txt", bad));
    SHOW(fstatfs(fd, bad));
    SHOW(syscall(SYS_getdents64, dir, bad, 4096));
    SHOW(syscall(SYS_getcwd, bad, 4096));
    SHOW(sendfile(ends[1], fd, bad, 10));
    SHOW(splice(fd, bad, ends[1], NULL, 10, 0));
    SHOW(copy_file_range(fd, bad, fd, NULL, 10, 0));
    SHOW(ioctl(fd, FIONREAD, bad));
    /* A number that is none comes first. */
    SHOW(ioctl(999, FICLONERANGE, bad));
    SHOW(fcntl(fd, F_GETLK, bad));
    SHOW(fcntl(fd, F_SETLK, bad));
    SHOW(syscall(SYS_utimensat, AT_FDCWD, "hello.txt", bad, 0));
    SHOW(syscall(SYS_write, fd, bad, 10));
    SHOW(fstat(fd, (void *)good));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    close(dir);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    char *unmapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(unmapped, 8192);
    with("NULL", NULL);
    with("a low address", (void *)8);
    with("unmapped", unmapped);
    with("not canonical", (void *)0x8000000000000000);
    with("the kernel's", (void *)0xffffffff80000000);
    with("the last page", (void *)-4096L);

    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    with("PROT_NONE", none);

    /* A buffer that ends in the middle: what a read gives before the end of the mapping. */
    puts("== half a buffer");
    char *half = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(half + 4096, 4096, PROT_NONE);
    int fd = must_open("data.bin", O_RDONLY);
    errno = 0;
    long n = read(fd, half + 96, 8000);
    /* How much of it arrives is the file system's own business: some or EFAULT, but the offset
     * agrees. */
    printf("some or EFAULT %d, the offset agrees %d\n", n > 0 ? n <= 4000 : errno == EFAULT, lseek(fd, 0, SEEK_CUR) == (n > 0 ? n : 0));
    if (n > 0) {
        char again[4000];
        pread(fd, again, n, 0);
        printf("right bytes %d\n", memcmp(half + 96, again, n) == 0);
    }
    SHOW(pread(fd, half + 4096 - 4, 4, 0));
    strcpy(half + 4096 - 10, "hello.txt");
    struct stat st;
    show_stat("a name at the very end of a page", stat(half + 4096 - 10, &st), &st);
    memcpy(half + 4096 - 9, "hello.txt", 9);
    show_stat("a name without an end", stat(half + 4096 - 9, &st), &st);
    struct iovec *parts = (void *)(half + 4096 - 16);
    *parts = (struct iovec) { half, 10 };
    SHOW(readv(fd, parts, 1));
    SHOW(readv(fd, parts, 2));
    /* Read-only memory. */
    char *text = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(read(fd, text, 10));
    SHOW(syscall(SYS_fstat, fd, text));
    SHOW(syscall(SYS_getdents64, must_open("dir", O_RDONLY), text, 4096));
    puts("done");
    return 0;
}
