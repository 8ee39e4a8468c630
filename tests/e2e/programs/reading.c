/* Every call that reads a file's data, and calls on its descriptor; what reads names and properties
 * is in looking.c. Usage: reading GROUP, with the tree `odd` as the working directory. */
#include "probe.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#define SIZE 300001 /* of data.bin */

static char buffer[1 << 20];

static void bytes(const char *what, long n)
{
    int error = errno;
    if (n < 0)
        printf("%s = %ld %s\n", what, n, error_name(error));
    else
        printf("%s = %ld %016lx\n", what, n, digest(buffer, n));
    fflush(stdout);
    memset(buffer, 0x55, sizeof buffer);
}
#define BYTES(call) bytes(#call, (long)(call))
#define WHERE(fd) printf("offset %ld\n", (long)lseek(fd, 0, SEEK_CUR))

static void group_read(void)
{
    int fd = must_open("data.bin", O_RDONLY);
    static const size_t sizes[] = { 0, 1, 7, 511, 512, 4095, 4096, 4097, 65536, 100000, 300000, 1000000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        printf("%zu: ", sizes[i]);
        BYTES(read(fd, buffer, sizes[i]));
        WHERE(fd);
    }
    BYTES(read(fd, buffer, 1));
    SHOW(lseek(fd, 0, SEEK_SET));
    long total = 0, n;
    uint64_t hash = 0;
    while ((n = read(fd, buffer, 8191)) > 0) {
        total += n;
        hash = hash * 31 + digest(buffer, n);
    }
    printf("whole %ld %016lx\n", total, hash);
    BYTES(read(fd, buffer, SSIZE_MAX));
    close(fd);
    SHOW(read(fd, buffer, 1));
    fd = must_open("dir", O_RDONLY);
    SHOW(read(fd, buffer, 1));
    SHOW(pread(fd, buffer, 1, 0));
    close(fd);
    fd = must_open("hello.txt", O_PATH);
    SHOW(read(fd, buffer, 1));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(fcntl(fd, F_GETFL));
    close(fd);
    fd = must_open("empty", O_RDONLY);
    BYTES(read(fd, buffer, 10));
    close(fd);
    fd = must_open("sparse.bin", O_RDONLY);
    for (int i = 0; i < 4; i++)
        BYTES(read(fd, buffer, sizeof buffer));
    close(fd);
}

static void group_positioned(void)
{
    int fd = must_open("data.bin", O_RDONLY);
    static const off_t offsets[] = { 0, 1, 4095, 4096, 150000, SIZE - 1, SIZE, SIZE + 1, 1L << 40, INT64_MAX, -1 };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        printf("at %ld: ", (long)offsets[i]);
        BYTES(pread(fd, buffer, 5000, offsets[i]));
        struct iovec parts[] = { { buffer, 10 }, { buffer + 10, 0 }, { buffer + 10, 3000 } };
        BYTES(preadv(fd, parts, 3, offsets[i]));
        BYTES(preadv2(fd, parts, 3, offsets[i], 0));
    }
    WHERE(fd);
    struct iovec parts[] = { { buffer, 100 }, { buffer + 100, 1 }, { buffer + 101, 20000 } };
    BYTES(readv(fd, parts, 3));
    WHERE(fd);
    BYTES(preadv2(fd, parts, 2, -1, 0));
    WHERE(fd);
    BYTES(readv(fd, parts, 0));
    SHOW(readv(fd, parts, -1));
    SHOW(readv(fd, parts, 1025));
    struct iovec big[] = { { buffer, SSIZE_MAX }, { buffer, 1 } };
    SHOW(readv(fd, big, 2));
    SHOW(preadv2(fd, parts, 1, 0, 0x40000000));
    SHOW(preadv2(fd, parts, 1, -2, 0));
    static struct iovec many[1024];
    for (int i = 0; i < 1024; i++)
        many[i] = (struct iovec) { buffer + i * 7, 7 };
    BYTES(readv(fd, many, 1024));
    SHOW(write(fd, buffer, 1));
    SHOW(write(fd, buffer, 0));
    SHOW(pwrite(fd, buffer, 1, 0));
    SHOW(writev(fd, parts, 1));
    close(fd);
}

static void group_seek(void)
{
    int fd = must_open("data.bin", O_RDONLY);
    SHOW(lseek(fd, 100, SEEK_SET));
    SHOW(lseek(fd, 50, SEEK_CUR));
    SHOW(lseek(fd, -151, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(lseek(fd, 1000, SEEK_END));
    BYTES(read(fd, buffer, 10));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, -SIZE - 1, SEEK_END));
    SHOW(lseek(fd, 0, 99));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(lseek(fd, 0, SEEK_DATA));
    SHOW(lseek(fd, 10, SEEK_DATA));
    SHOW(lseek(fd, 0, SEEK_HOLE));
    SHOW(lseek(fd, SIZE, SEEK_DATA));
    SHOW(lseek(fd, SIZE, SEEK_HOLE));
    SHOW(lseek(fd, SIZE + 5, SEEK_HOLE));
    SHOW(lseek(fd, -1, SEEK_DATA));
    close(fd);
    /* A hole may be reported or not; but data must never be called a hole, and offsets are shared
     * with read. */
    fd = must_open("sparse.bin", O_RDONLY);
    long data = lseek(fd, 2 << 20, SEEK_DATA);
    printf("data at its start %d\n", data == 2 << 20);
    printf("hole lies behind data %d\n", lseek(fd, 2 << 20, SEEK_HOLE) >= (2 << 20) + 6);
    SHOW(lseek(fd, 3 << 20, SEEK_DATA));
    close(fd);
}

static void group_mmap(void)
{
    int fd = must_open("data.bin", O_RDONLY);
    static const struct { const char *name; int flags; } kinds[] = { { "private", MAP_PRIVATE }, { "shared", MAP_SHARED }, { "populated", MAP_PRIVATE | MAP_POPULATE } };
    for (int k = 0; k < 3; k++) {
        for (long offset = 0; offset <= 69632; offset += 69632) {
            char *map = mmap(NULL, SIZE - offset, PROT_READ, kinds[k].flags, fd, offset);
            if (map == MAP_FAILED) {
                works(kinds[k].name, -1);
                continue;
            }
            printf("%s at %ld %016lx", kinds[k].name, offset, digest(map, SIZE - offset));
            long tail = 0, end = (SIZE - offset + 4095) & ~4095L;
            for (long i = SIZE - offset; i < end; i++)
                tail |= map[i];
            printf(" tail %ld\n", tail);
            munmap(map, SIZE - offset);
        }
    }
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    works("private, writable", map == MAP_FAILED ? -1 : 0);
    if (map != MAP_FAILED) {
        map[0] ^= 1;
        pread(fd, buffer, 1, 0);
        printf("a private write stays private %d\n", buffer[0] != map[0]);
        SHOW(mprotect(map, 4096, PROT_READ | PROT_EXEC));
        SHOW(madvise(map, 8192, MADV_WILLNEED));
        SHOW(madvise(map, 8192, MADV_DONTNEED));
        pread(fd, buffer, 1, 0);
        printf("and is dropped by MADV_DONTNEED %d\n", buffer[0] == map[0]);
        SHOW(msync(map, 8192, MS_SYNC));
        char *moved = mremap(map, 8192, 4 * 4096, MREMAP_MAYMOVE);
        works("mremap", moved == MAP_FAILED ? -1 : 0);
        if (moved != MAP_FAILED) {
            pread(fd, buffer, 16384, 0);
            printf("grown mapping has the file's bytes %d\n", memcmp(moved + 8192, buffer + 8192, 8192) == 0);
            munmap(moved, 16384);
        }
    }
    works("shared, writable", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    works("at an odd offset", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 100) == MAP_FAILED ? -1 : 0);
    works("of length 0", mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    map = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    printf("outlives its descriptor %016lx\n", map == MAP_FAILED ? 0 : digest(map, SIZE));
    fflush(stdout);
    if (fork() == 0) {
        printf("in a child %016lx\n", digest(map, SIZE));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    /* Read through a mapping into a system call. */
    int out[2];
    pipe(out);
    SHOW(write(out[1], map + 5000, 3000));
    BYTES(read(out[0], buffer, 4000));
    fd = must_open("empty", O_RDONLY);
    works("of an empty file", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    close(fd);
    fd = must_open("dir", O_RDONLY);
    works("of a directory", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    close(fd);
    fd = must_open("hello.txt", O_PATH);
    works("of an O_PATH descriptor", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    close(fd);
    fd = must_open("sparse.bin", O_RDONLY);
    map = mmap(NULL, 3 << 20, PROT_READ, MAP_SHARED, fd, 0);
    printf("sparse %016lx\n", map == MAP_FAILED ? 0 : digest(map, 3 << 20));
    close(fd);
    /* Reads go on as before on a descriptor whose file is mapped. */
    fd = must_open("lines.txt", O_RDONLY);
    BYTES(read(fd, buffer, 5));
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    BYTES(read(fd, buffer, 5));
    WHERE(fd);
    close(fd);
}

static void drain(int from, long *total, uint64_t *hash)
{
    long n = read(from, buffer, sizeof buffer);
    if (n > 0) {
        *total += n;
        for (long i = 0; i < n; i++)
            *hash = *hash * 31 + (unsigned char)buffer[i];
    }
}

static void group_transfer(void)
{
    int fd = must_open("data.bin", O_RDONLY), ends[2];
    long total = 0, n;
    uint64_t hash = 0;
    pipe(ends);
    while ((n = sendfile(ends[1], fd, NULL, 30000)) > 0)
        drain(ends[0], &total, &hash);
    printf("sendfile, own offset: last %ld total %ld %016lx\n", n, total, hash);
    WHERE(fd);
    off_t at = 1000;
    SHOW(sendfile(ends[1], fd, &at, 5000));
    printf("offset argument %ld\n", (long)at);
    WHERE(fd);
    BYTES(read(ends[0], buffer, 10000));
    at = -1;
    SHOW(sendfile(ends[1], fd, &at, 10));
    SHOW(sendfile(fd, ends[0], NULL, 10));
    /* Into a file and a socket. */
    char path[] = "/tmp/culvert-probe-XXXXXX";
    int out = mkstemp(path);
    unlink(path);
    at = 0;
    total = 0;
    while (total < SIZE && (n = sendfile(out, fd, &at, SIZE)) > 0)
        total += n;
    printf("sendfile to a file %ld\n", total);
    pread(out, buffer, sizeof buffer, 0);
    printf("%016lx\n", digest(buffer, SIZE));
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    at = 7;
    SHOW(sendfile(pair[0], fd, &at, 2000));
    BYTES(recv(pair[1], buffer, 5000, 0));

    /* splice to a pipe, with and without an offset. */
    SHOW(lseek(fd, 0, SEEK_SET));
    total = 0;
    hash = 0;
    while ((n = splice(fd, NULL, ends[1], NULL, 30000, 0)) > 0)
        drain(ends[0], &total, &hash);
    printf("splice: last %ld total %ld %016lx\n", n, total, hash);
    loff_t from = 4097;
    works("splice at an offset", splice(fd, &from, ends[1], NULL, 3000, 0));
    printf("offset argument %ld\n", (long)from);
    BYTES(read(ends[0], buffer, 10000));
    SHOW(splice(ends[0], NULL, fd, NULL, 10, SPLICE_F_NONBLOCK));
    SHOW(splice(fd, NULL, out, NULL, 10, 0));

    /* copy_file_range from the mount. */
    ftruncate(out, 0);
    loff_t to = 0;
    from = 0;
    total = 0;
    while ((n = copy_file_range(fd, &from, out, &to, 100000, 0)) > 0)
        total += n;
    /* Whether it works across file systems is theirs to say; programs then copy by themselves. */
    printf("copied, or not across file systems %d\n", n < 0 ? errno == EXDEV : total == SIZE);
    SHOW(copy_file_range(out, NULL, fd, NULL, 10, 0));
    SHOW(copy_file_range(fd, NULL, out, NULL, 10, 1));
    SHOW(tee(fd, ends[1], 10, 0));
    close(out);
}

static void group_control(void)
{
    int fd = must_open("data.bin", O_RDONLY), value = -7;
    SHOW(fcntl(fd, F_GETFL));
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_SETFD, FD_CLOEXEC));
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
    SHOW(fcntl(fd, F_GETFL));
    SHOW(fcntl(fd, F_SETFL, 0));
    SHOW(fcntl(fd, F_GETFL));
    SHOW(fcntl(fd, F_DUPFD, 50));
    SHOW(fcntl(50, F_GETFD));
    SHOW(fcntl(fd, F_DUPFD_CLOEXEC, 50));
    SHOW(fcntl(51, F_GETFD));
    SHOW(lseek(fd, 1234, SEEK_SET));
    SHOW(lseek(50, 0, SEEK_CUR));
    SHOW(lseek(51, 0, SEEK_CUR));
    SHOW(dup2(fd, 60));
    SHOW(dup2(60, 60));
    SHOW(dup3(60, 60, 0));
    SHOW(dup3(fd, 61, O_CLOEXEC));
    SHOW(dup2(fd, 1000000));
    SHOW(lseek(61, 1, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(close(fd));
    SHOW(lseek(60, 0, SEEK_CUR));
    SHOW(close_range(50, 60, 0));
    SHOW(lseek(60, 0, SEEK_CUR));
    BYTES(read(61, buffer, 100));
    fd = SHOW(dup(61));
    int before = fd;
    close(fd);
    fd = SHOW(open("hello.txt", O_RDONLY));
    printf("the lowest free number %d\n", fd == before);

    SHOW(ioctl(fd, FIONREAD, &value));
    printf("FIONREAD %d\n", value);
    lseek(fd, 5, SEEK_SET);
    SHOW(ioctl(fd, FIONREAD, &value));
    printf("FIONREAD %d\n", value);
    SHOW(ioctl(fd, FIOCLEX));
    SHOW(fcntl(fd, F_GETFD));
    SHOW(ioctl(fd, FIONCLEX));
    value = 1;
    SHOW(ioctl(fd, FIONBIO, &value));
    SHOW(fcntl(fd, F_GETFL));
    struct winsize size;
    SHOW(ioctl(fd, TIOCGWINSZ, &size));
    SHOW(isatty(fd));
    SHOW(ioctl(fd, 0x12345678, &value));

    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
    SHOW(posix_fadvise(fd, 0, 0, 99));
    SHOW(readahead(fd, 0, 4096));
    SHOW(fsync(fd));
    SHOW(fdatasync(fd));
    SHOW(syncfs(fd));
    SHOW(sync_file_range(fd, 0, 10, 0));

    /* Locks: on this description and from another. */
    int second = must_open("hello.txt", O_RDONLY);
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(second, LOCK_SH | LOCK_NB));
    SHOW(flock(fd, LOCK_SH | LOCK_NB));
    SHOW(flock(second, LOCK_SH | LOCK_NB));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(second, LOCK_UN));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(fd, LOCK_UN));
    SHOW(flock(fd, 77));
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 5 };
    SHOW(fcntl(fd, F_SETLK, &lock));
    lock.l_type = F_WRLCK;
    SHOW(fcntl(fd, F_SETLK, &lock));
    SHOW(fcntl(second, F_GETLK, &lock));
    printf("F_GETLK %d\n", lock.l_type);
    struct flock open_lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    SHOW(fcntl(second, F_OFD_SETLK, &open_lock));
    open_lock.l_type = F_UNLCK;
    SHOW(fcntl(second, F_OFD_SETLK, &open_lock));
    SHOW(fcntl(fd, F_GETLEASE));
    SHOW(fcntl(fd, F_GETOWN));
    SHOW(fcntl(fd, F_GETPIPE_SZ));
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, 9999));
    /* Still the same file after all of that. */
    BYTES(pread(fd, buffer, 100, 0));
    WHERE(fd);
    close(second);
}

static void group_wait(void)
{
    int fd = must_open("hello.txt", O_RDONLY), dir = must_open("dir", O_RDONLY);
    struct pollfd polls[] = { { fd, POLLIN | POLLOUT | POLLPRI, 0 }, { dir, POLLIN, 0 } };
    SHOW(poll(polls, 2, 0));
    printf("revents %x %x\n", polls[0].revents, polls[1].revents);
    fd_set reading, writing;
    FD_ZERO(&reading);
    FD_ZERO(&writing);
    FD_SET(fd, &reading);
    FD_SET(fd, &writing);
    struct timeval now = { 0, 0 };
    SHOW(select(fd + 1, &reading, &writing, NULL, &now));
    printf("selected %d %d\n", !!FD_ISSET(fd, &reading), !!FD_ISSET(fd, &writing));
    struct timespec none = { 0, 0 };
    FD_SET(fd, &reading);
    SHOW(pselect(fd + 1, &reading, NULL, NULL, &none, NULL));
    SHOW(ppoll(polls, 2, &none, NULL));
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, dir, &event));
    close(epoll);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "read", group_read }, { "positioned", group_positioned }, { "seek", group_seek }, { "mmap", group_mmap },
        { "transfer", group_transfer }, { "control", group_control }, { "wait", group_wait },
    };
    return RUN_GROUP(groups, argv[1]);
}
