/* Every call that changes a file's bytes through a descriptor. Usage: writing GROUP, in an empty
 * directory. */
#include "probe.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/file.h>

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

static char buffer[1 << 20];

/* The whole file as it is now: its length and digest, read through a descriptor of its own. */
static void content(const char *path)
{
    int fd = must_open(path, O_RDONLY);
    long length = 0, n;
    while ((n = read(fd, buffer + length, sizeof buffer - length)) > 0)
        length += n;
    printf("%s: %ld bytes %016lx", path, length, digest(buffer, length));
    if (length <= 64) {
        printf(" '");
        for (long i = 0; i < length; i++)
            putchar(buffer[i] < 32 ? '.' : buffer[i]);
        printf("'");
    }
    puts("");
    fflush(stdout);
    close(fd);
}
#define WHERE(fd) printf("offset %ld\n", (long)lseek(fd, 0, SEEK_CUR))

static int made(const char *path, int flags, const char *text)
{
    int fd = open(path, flags | O_CREAT, 0644);
    if (fd < 0)
        die(path);
    if (text && write(fd, text, strlen(text)) != (long)strlen(text))
        die("write");
    return fd;
}

static void group_write(void)
{
    int fd = made("f", O_RDWR, NULL);
    SHOW(write(fd, "hello", 5));
    SHOW(write(fd, "", 0));
    SHOW(write(fd, NULL, 0));
    WHERE(fd);
    SHOW(pwrite(fd, "J", 1, 0));
    SHOW(pwrite(fd, "end", 3, 10));
    SHOW(pwrite(fd, "x", 1, -1));
    SHOW(pwrite(fd, "x", 1, LONG_MAX));
    SHOW(pwrite(fd, "x", 0, LONG_MAX));
    SHOW(write(fd, (void *)16, 4));
    SHOW(write(fd, (void *)-1L, 4));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(write(fd, "!", 1));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, -100, SEEK_CUR));
    SHOW(lseek(fd, 5000, SEEK_END));
    SHOW(write(fd, "far", 3));
    content("f");
    struct stat st;
    show_stat("fstat", fstat(fd, &st), &st);
    int reader = must_open("f", O_RDONLY), writer = must_open("f", O_WRONLY), path = must_open("f", O_PATH);
    SHOW(write(reader, "x", 1));
    SHOW(pwrite(reader, "x", 1, 0));
    SHOW(read(writer, buffer, 1));
    SHOW(pread(writer, buffer, 1, 0));
    SHOW(write(path, "x", 1));
    SHOW(ftruncate(reader, 3));
    SHOW(ftruncate(path, 3));
    SHOW(fallocate(reader, 0, 0, 1));
    SHOW(write(writer, "W", 1));
    content("f");
    int directory = must_open(".", O_RDONLY);
    SHOW(write(directory, "x", 1));
    SHOW(pwrite(directory, "x", 1, 0));
    SHOW(ftruncate(directory, 0));
}

static void group_vectors(void)
{
    int fd = made("f", O_RDWR, NULL);
    struct iovec v[4] = { { "ab", 2 }, { NULL, 0 }, { "cde", 3 }, { "f", 1 } };
    SHOW(writev(fd, v, 4));
    SHOW(writev(fd, v, 0));
    SHOW(writev(fd, v, -1));
    SHOW(writev(fd, v, 1025));
    SHOW(writev(fd, NULL, 2));
    SHOW(pwritev(fd, v, 3, 100));
    SHOW(pwritev(fd, v, 3, -5));
    SHOW(pwritev2(fd, v, 4, -1, 0));
    SHOW(pwritev2(fd, v, 4, 3, RWF_APPEND));
    SHOW(pwritev2(fd, v, 4, -1, RWF_APPEND));
    WHERE(fd);
    SHOW(pwritev2(fd, v, 4, 0, RWF_DSYNC));
    SHOW(pwritev2(fd, v, 4, 0, RWF_SYNC));
    SHOW(pwritev2(fd, v, 4, 0, 0x40000000));
    SHOW(pwritev2(fd, v, 0, 0, 0x40000000));
    SHOW(preadv2(fd, v, 0, 0, 0x40000000));
    content("f");
    struct iovec bad[3] = { { "12", 2 }, { (void *)16, 5 }, { "345", 3 } };
    SHOW(pwritev(fd, bad, 3, 0));
    struct iovec first[2] = { { (void *)16, 5 }, { "345", 3 } };
    SHOW(pwritev(fd, first, 2, 0));
    struct iovec wild[2] = { { "9", 1 }, { (void *)-4096L, 5 } };
    SHOW(writev(fd, wild, 2));
    struct iovec negative[2] = { { "9", 1 }, { "8", -1 } };
    SHOW(writev(fd, negative, 2));
    content("f");
}

/* A buffer that ends in the middle: what lies before the end is written. */
static void group_half(void)
{
    char *end = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    memset(end - 4096, 'h', 4096);
    munmap(end, 4096);
    int fd = made("f", O_RDWR, "begin ");
    struct iovec v[2] = { { "ab", 2 }, { end - 7, 20 } };
    SHOW(write(fd, end - 10, 50));
    WHERE(fd);
    SHOW(pwrite(fd, end - 50, 100, 20));
    SHOW(writev(fd, v, 2));
    WHERE(fd);
    SHOW(pwrite(fd, end, 10, 0));
    content("f");
    int appending = must_open("f", O_WRONLY | O_APPEND);
    SHOW(write(appending, end - 3, 30));
    content("f");
    /* What a read of a hole leaves out is not read either. */
    SHOW(ftruncate(fd, 100000));
    SHOW(pread(fd, end - 5, 10, 50000));
    printf("%d\n", end[-1] == 0 && end[-5] == 0 && end[-6] == 'h');
}

static void group_append(void)
{
    int fd = made("f", O_RDWR | O_APPEND, "start"), plain = must_open("f", O_RDWR);
    WHERE(fd);
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(write(fd, "-two", 4));
    WHERE(fd);
    SHOW(pwrite(fd, "P", 1, 0)); /* pwrite(2), BUGS: appended */
    WHERE(fd);
    SHOW(read(fd, buffer, 5));
    SHOW(lseek(fd, 2, SEEK_SET));
    SHOW(read(fd, buffer, 2));
    content("f");
    struct iovec v = { "N", 1 };
    long result = pwritev2(fd, &v, 1, 0, RWF_NOAPPEND);
    if (result == -1 && errno == EOPNOTSUPP)
        result = pwrite(plain, "N", 1, 0); /* Linux before 6.9 */
    show("no append", result);
    content("f");
    SHOW(fcntl(plain, F_GETFL));
    SHOW(fcntl(plain, F_SETFL, O_APPEND));
    SHOW(fcntl(plain, F_GETFL));
    SHOW(write(plain, "A", 1));
    WHERE(plain);
    SHOW(fcntl(fd, F_SETFL, 0));
    SHOW(lseek(fd, 1, SEEK_SET));
    SHOW(write(fd, "B", 1));
    content("f");
    int twin = dup(plain);
    SHOW(fcntl(twin, F_SETFL, 0));
    SHOW(lseek(twin, 0, SEEK_SET));
    SHOW(write(plain, "C", 1));
    WHERE(twin);
    content("f");
    /* The same after a child has shared both. */
    if (fork() == 0) {
        fcntl(plain, F_SETFL, O_APPEND);
        lseek(fd, 3, SEEK_SET);
        _exit(0);
    }
    wait(NULL);
    SHOW(fcntl(plain, F_GETFL) & O_APPEND);
    SHOW(write(plain, "D", 1));
    SHOW(write(fd, "E", 1));
    SHOW(pwrite(plain, "F", 1, 0));
    WHERE(fd);
    WHERE(plain);
    content("f");
}

static void group_open(void)
{
    close(made("f", O_WRONLY, "0123456789"));
    struct stat st;
    int fd = open("f", O_RDWR | O_TRUNC);
    show_stat("truncated", fstat(fd, &st), &st);
    SHOW(write(fd, "abc", 3));
    SHOW(open("f", O_WRONLY | O_CREAT | O_EXCL, 0600));
    WORKS(open("g", O_WRONLY | O_CREAT | O_EXCL, 0604));
    show_stat("g", stat("g", &st), &st);
    int creator = open("h", O_RDWR | O_CREAT, 0); /* no rights for later opens, but for this one */
    SHOW(write(creator, "mine", 4));
    SHOW(pread(creator, buffer, 4, 0));
    show_stat("h", stat("h", &st), &st);
    int synced = open("f", O_WRONLY | O_SYNC);
    SHOW(fcntl(synced, F_GETFL));
    SHOW(write(synced, "sync", 4));
    SHOW(fsync(synced));
    SHOW(fdatasync(synced));
    SHOW(sync_file_range(synced, 0, 4, SYNC_FILE_RANGE_WRITE));
    int data = open("f", O_WRONLY | O_DSYNC | O_APPEND | O_NONBLOCK);
    SHOW(fcntl(data, F_GETFL));
    SHOW(write(data, "data", 4));
    content("f");
    if (fork() == 0) {
        SHOW(fcntl(synced, F_GETFL));
        SHOW(fcntl(data, F_GETFL));
        SHOW(write(synced, "!", 1));
        _exit(0);
    }
    wait(NULL);
    content("f");
    int unlinked = made("u", O_RDWR, "unlinked");
    SHOW(unlink("u"));
    show_stat("unlinked", fstat(unlinked, &st), &st);
    SHOW(pwrite(unlinked, "U", 1, 0));
    SHOW(ftruncate(unlinked, 4));
    if (fork() == 0) {
        SHOW(pwrite(unlinked, "N", 1, 1));
        show_stat("in the child", fstat(unlinked, &st), &st);
        _exit(0);
    }
    wait(NULL);
    memset(buffer, 0, 16);
    SHOW(pread(unlinked, buffer, 16, 0));
    puts(buffer);
    SHOW(fchmod(unlinked, 0600));
    show_stat("unlinked", fstat(unlinked, &st), &st);
    int temporary = open(".", O_TMPFILE | O_RDWR, 0640);
    SHOW(write(temporary, "temporary", 9));
    show_stat("temporary", fstat(temporary, &st), &st);
    char link[64];
    sprintf(link, "/proc/self/fd/%d", temporary);
    SHOW(linkat(AT_FDCWD, link, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    content("named");
    int renamed = must_open("f", O_RDWR);
    SHOW(rename("named", "f"));
    SHOW(pwrite(renamed, "old", 3, 0));
    content("f");
}

static void group_size(void)
{
    int fd = made("f", O_RDWR, "0123456789");
    struct stat st;
    SHOW(ftruncate(fd, 4));
    WHERE(fd);
    content("f");
    SHOW(ftruncate(fd, 8));
    content("f");
    SHOW(ftruncate(fd, -1));
    SHOW(truncate("f", 12));
    SHOW(truncate("f", -1));
    SHOW(write(fd, "x", 1));
    content("f");
    SHOW(fallocate(fd, 0, 0, 0));
    SHOW(fallocate(fd, 0, -1, 5));
    SHOW(fallocate(fd, 0, 0, -5));
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 5));
    SHOW(fallocate(fd, 0x4000, 0, 5));
    SHOW(fallocate(fd, 0, LONG_MAX, 5));
    SHOW(fallocate(fd, 0, 8, 100));
    show_stat("allocated", fstat(fd, &st), &st);
    SHOW(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 5000));
    show_stat("kept", fstat(fd, &st), &st);
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3));
    content("f");
    SHOW(posix_fallocate(fd, 0, 6000));
    show_stat("posix_fallocate", fstat(fd, &st), &st);
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    SHOW(readahead(fd, 0, 4096));
    int hole = made("sparse", O_RDWR, NULL);
    SHOW(pwrite(hole, "end", 3, 1 << 20));
    SHOW(lseek(hole, 0, SEEK_HOLE));
    SHOW(lseek(hole, 1 << 20, SEEK_DATA));
    SHOW(lseek(hole, (1 << 20) + 3, SEEK_DATA));
    SHOW(lseek(hole, 1 << 20, SEEK_HOLE));
}

static volatile sig_atomic_t exceeded;
static void on_limit(int signal) { (void)signal; exceeded++; }

static void group_limit(void)
{
    struct rlimit limit = { 10, 100 };
    int fd = made("f", O_RDWR, NULL), end = made("e", O_RDWR | O_APPEND, "12345678");
    int long_one = made("long", O_RDWR, "0123456789abcdef");
    signal(SIGXFSZ, on_limit);
    SHOW(setrlimit(RLIMIT_FSIZE, &limit));
    SHOW(write(fd, "123456", 6));
    SHOW(write(fd, "789abc", 6));
    SHOW(write(fd, "d", 1));
    printf("signals %d\n", (int)exceeded);
    SHOW(write(fd, "d", 0));
    SHOW(pwrite(fd, "xyz", 3, 8));
    SHOW(pwrite(fd, "xyz", 3, 10));
    SHOW(pwrite(fd, "xyz", 3, 50));
    SHOW(write(end, "9abc", 4));
    SHOW(write(end, "d", 1));
    SHOW(ftruncate(fd, 11));
    SHOW(ftruncate(fd, 10));
    SHOW(truncate("f", 11));
    SHOW(ftruncate(long_one, 12)); /* shorter, if beyond the limit: fine */
    SHOW(fallocate(fd, 0, 0, 11));
    printf("signals %d\n", (int)exceeded);
    struct iovec v[2] = { { "ab", 2 }, { "cd", 2 } };
    SHOW(pwritev(fd, v, 2, 7));
    SHOW(sendfile(fd, long_one, (off_t[]){ 0 }, 5));
    signal(SIGXFSZ, SIG_IGN);
    SHOW(pwrite(fd, "xyz", 3, 50));
    content("f");
    content("e");
    if (fork() == 0) {
        struct rlimit larger = { 20, 100 };
        SHOW(pwrite(fd, "xyz", 3, 50));
        SHOW(setrlimit(RLIMIT_FSIZE, &larger));
        SHOW(pwrite(fd, "0123456789", 10, 15));
        signal(SIGXFSZ, SIG_DFL);
        pwrite(fd, "xyz", 3, 50);
        _exit(0);
    }
    int status;
    wait(&status);
    printf("child %d %d\n", WIFSIGNALED(status), WTERMSIG(status));
    content("f");
}

static void group_umask(void)
{
    struct stat st;
    close(made("inherited", O_RDWR, NULL)); /* with the umask that this program was started with */
    show_stat("inherited", stat("inherited", &st), &st);
    printf("umask %o\n", umask(027));
    WORKS(mkdir("d", 0777));
    show_stat("d", stat("d", &st), &st);
    close(open("f", O_CREAT | O_WRONLY, 0666));
    show_stat("f", stat("f", &st), &st);
    WORKS(mknod("p", S_IFIFO | 0666, 0));
    show_stat("p", stat("p", &st), &st);
    if (fork() == 0) {
        umask(0);
        close(open("child", O_CREAT | O_WRONLY, 0666));
        _exit(0);
    }
    wait(NULL);
    show_stat("child", stat("child", &st), &st);
    close(open("after", O_CREAT | O_WRONLY, 0666));
    show_stat("after", stat("after", &st), &st);
    if (vfork() == 0) {
        umask(077);
        close(open("vforked", O_CREAT | O_WRONLY, 0666));
        _exit(0);
    }
    wait(NULL);
    show_stat("vforked", stat("vforked", &st), &st);
    close(open("later", O_CREAT | O_WRONLY, 0666));
    show_stat("later", stat("later", &st), &st);
    printf("umask %o\n", umask(022));
    /* Of the working directory, by no path. */
    struct timespec times[2] = { { 1, 0 }, { 2, 0 } };
    WORKS(chdir("d"));
    SHOW(syscall(452 /* fchmodat2 */, AT_FDCWD, "", 0751, AT_EMPTY_PATH));
    SHOW(fchownat(AT_FDCWD, "", -1, getgid(), AT_EMPTY_PATH));
    SHOW(utimensat(AT_FDCWD, "", times, AT_EMPTY_PATH));
    show_stat("working directory", stat("../d", &st), &st);
    printf("%ld\n", (long)st.st_mtime);
}

static void group_transfer(void)
{
    int a = made("a", O_RDWR, "0123456789"), b = made("b", O_RDWR, NULL), appending = made("c", O_RDWR | O_APPEND, "c");
    int outside = open(getenv("OUTSIDE"), O_RDWR | O_CREAT | O_TRUNC, 0600), pipes[2], reader = must_open("a", O_RDONLY);
    if (outside < 0 || pipe(pipes))
        die("outside");
    off_t from = 2, to = 1;
    SHOW(sendfile(b, a, &from, 5));
    printf("from %ld\n", (long)from);
    WHERE(b);
    SHOW(sendfile(b, a, NULL, 5));
    lseek(a, 8, SEEK_SET);
    SHOW(sendfile(b, a, NULL, 5));
    WHERE(a);
    content("b");
    SHOW(sendfile(appending, a, &from, 5));
    SHOW(sendfile(reader, a, &from, 5));
    from = -1;
    SHOW(sendfile(b, a, &from, 5));
    SHOW(sendfile(b, pipes[0], NULL, 5));
    from = 0;
    SHOW(sendfile(outside, a, &from, 4));
    SHOW(lseek(outside, 1, SEEK_SET));
    SHOW(sendfile(b, outside, NULL, 100));
    WHERE(outside);
    content("b");
    from = 3;
    SHOW(copy_file_range(a, &from, b, &to, 4, 0));
    printf("from %ld to %ld\n", (long)from, (long)to);
    content("b");
    SHOW(copy_file_range(a, &from, b, NULL, 100, 0));
    WHERE(b);
    from = 0, to = 2;
    SHOW(copy_file_range(a, &from, a, &to, 4, 0));
    to = 20;
    SHOW(copy_file_range(a, &from, a, &to, 4, 0));
    /* Only half of a flags argument counts: the other may hold anything. */
    to = 30;
    SHOW(syscall(SYS_copy_file_range, a, &from, a, &to, 4UL, 5UL << 32));
    SHOW(copy_file_range(a, &from, appending, NULL, 4, 0));
    SHOW(copy_file_range(a, &from, reader, NULL, 4, 0));
    SHOW(copy_file_range(a, &from, b, NULL, 4, 1));
    SHOW(copy_file_range(a, &from, pipes[1], NULL, 4, 0));
    from = 1000;
    SHOW(copy_file_range(a, &from, b, NULL, 4, 0));
    content("a");
    content("b");
    from = 1, to = 3;
    SHOW(splice(a, &from, pipes[1], NULL, 6, 0));
    printf("from %ld\n", (long)from);
    SHOW(splice(pipes[0], NULL, b, &to, 4, 0));
    printf("to %ld\n", (long)to);
    lseek(b, 0, SEEK_SET);
    SHOW(splice(pipes[0], NULL, b, NULL, 100, 0));
    WHERE(b);
    SHOW(splice(pipes[0], NULL, b, NULL, 100, SPLICE_F_NONBLOCK));
    write(pipes[1], "xy", 2);
    SHOW(splice(pipes[0], NULL, appending, NULL, 2, 0));
    SHOW(splice(pipes[0], &from, b, NULL, 2, 0));
    SHOW(splice(a, NULL, b, NULL, 2, 0));
    SHOW(splice(pipes[0], NULL, reader, NULL, 2, 0));
    SHOW(tee(pipes[0], a, 2, 0));
    struct iovec v = { "v", 1 };
    SHOW(vmsplice(a, &v, 1, 0));
    content("b");
    content("c");
    int sockets[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    from = 0;
    SHOW(sendfile(sockets[0], a, &from, 6));
    SHOW(read(sockets[1], buffer, 100));
}

static void group_map(void)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = made("f", O_RDWR, NULL);
    memset(buffer, 'a', 3 * page);
    SHOW(write(fd, buffer, 2 * page + 10));
    char *private = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    printf("private %c %c %d\n", private[0], private[2 * page + 9], private[2 * page + 10]);
    private[0] = 'p';
    content("f");
    /* What is written between two mappings is seen by the second. */
    SHOW(pwrite(fd, "BBBB", 4, page));
    char *again = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, page);
    printf("again %c%c\n", again[0], again[4]);
    SHOW(ftruncate(fd, page));
    SHOW(pwrite(fd, "C", 1, 0));
    SHOW(pwrite(fd, "D", 1, page));
    again = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("third %c %c %d\n", again[0], again[page], again[page + 1]);
    int writer = must_open("f", O_WRONLY), reader = must_open("f", O_RDONLY);
    SHOW((long)mmap(NULL, page, PROT_READ, MAP_PRIVATE, writer, 0));
    SHOW((long)mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0));
    SHOW((long)mmap(NULL, page, PROT_READ, MAP_SHARED, writer, 0));
    WORKS((long)mmap(NULL, page, PROT_READ, MAP_SHARED, reader, 0));
}

/* Stores into a shared mapping: they are writes, or the mapping is refused. */
static void group_shared_map(void)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = made("f", O_RDWR, NULL);
    SHOW(ftruncate(fd, page));
    char *map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        printf("refused %s\n", error_name(errno));
        return;
    }
    strcpy(map, "stored");
    SHOW(pread(fd, buffer, 6, 0));
    printf("read %.6s\n", buffer);
    SHOW(pwrite(fd, "written", 7, 100));
    printf("mapped %.7s\n", map + 100);
    SHOW(msync(map, page, MS_SYNC));
    SHOW(munmap(map, page));
    content("f");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "write", group_write }, { "vectors", group_vectors }, { "half", group_half }, { "append", group_append }, { "open", group_open },
        { "size", group_size }, { "limit", group_limit }, { "umask", group_umask }, { "transfer", group_transfer }, { "map", group_map },
        { "shared-map", group_shared_map },
    };
    return RUN_GROUP(groups, argv[1]);
}
