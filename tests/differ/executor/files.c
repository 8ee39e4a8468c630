/* Opening, reading, writing, seeking, sizes, mappings. */
#include "executor.h"
#include "arguments.h"
#include <linux/openat2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* What step N writes: a letter of its own. */
static char *filled(struct step *s, long size, const char *kind)
{
    char *bytes = buffer(size, kind);
    if (bytes != (char *)8) {
        long usable = kind && !strncmp(kind, "edge:", 5) ? number(kind + 5) : size;
        if (usable > 0 && usable <= 64 << 20)
            memset(bytes, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[s->number % 52], (size_t)usable);
    }
    return bytes;
}

static void show_read(char *bytes, long got)
{
    if (result(got) > 0 && bytes != (char *)8)
        out_bytes(bytes, got);
}

static bool opening(struct step *s, int at)
{
    if (IS("open", 4)) {
        touch(P(2));
        new_descriptor(W(1), open(P(2), (int)N(3), (mode_t)N(4)));
    } else if (IS("openat", 5)) {
        touch(P(3));
        new_descriptor(W(1), syscall(SYS_openat, F(2), P(3), (int)N(4), (mode_t)N(5)));
    } else if (IS("creat", 3)) {
        touch(P(2));
        new_descriptor(W(1), syscall(SYS_creat, P(2), (mode_t)N(3)));
    } else if (IS("openat2", 6)) {
        struct open_how how = { (uint64_t)N(4), (uint64_t)N(5), (uint64_t)N(6) };
        touch(P(3));
        long fd;
        /* EAGAIN of a scoped walk says that something was renamed or mounted meanwhile, anywhere
         * (openat2(2)). */
        for (int tries = 0; (fd = syscall(SYS_openat2, F(2), P(3), &how, sizeof how)) == -1 && errno == EAGAIN && tries < 100; tries++)
            ;
        new_descriptor(W(1), fd);
    } else {
        return false;
    }
    return true;
}

static bool reading(struct step *s, int at)
{
    if (IS("read", 2)) {
        char *bytes = buffer(N(2), word_or(s, at + 3, NULL));
        show_read(bytes, read(F(1), bytes, (size_t)N(2)));
    } else if (IS("pread", 3)) {
        char *bytes = buffer(N(2), word_or(s, at + 4, NULL));
        show_read(bytes, syscall(SYS_pread64, F(1), bytes, N(2), N(3)));
    } else if (IS("readv", 3)) {
        struct iovec parts[] = { { buffer(N(2), NULL), (size_t)N(2) }, { buffer(N(3), word_or(s, at + 4, NULL)), (size_t)N(3) } };
        long got = result(readv(F(1), parts, 2));
        if (got > 0)
            out_bytes(parts[0].iov_base, got < N(2) ? got : N(2));
        if (got > N(2))
            out_bytes(parts[1].iov_base, got - N(2));
    } else if (IS("preadv2", 4)) {
        struct iovec part = { buffer(N(2), NULL), (size_t)N(2) };
        show_read(part.iov_base, preadv2(F(1), &part, 1, N(3), (int)N(4)));
    } else {
        return false;
    }
    return true;
}

static bool writing(struct step *s, int at)
{
    if (IS("write", 2)) {
        result(write(F(1), filled(s, N(2), word_or(s, at + 3, NULL)), (size_t)N(2)));
    } else if (IS("pwrite", 3)) {
        result(syscall(SYS_pwrite64, F(1), filled(s, N(2), word_or(s, at + 4, NULL)), N(2), N(3)));
    } else if (IS("writev", 3)) {
        struct iovec parts[] = { { filled(s, N(2), NULL), (size_t)N(2) }, { filled(s, N(3), word_or(s, at + 4, NULL)), (size_t)N(3) } };
        result(syscall(SYS_writev, F(1), parts, 2));
    } else if (IS("pwritev2", 4)) {
        struct iovec part = { filled(s, N(2), NULL), (size_t)N(2) };
        result(pwritev2(F(1), &part, 1, N(3), (int)N(4)));
    } else if (IS("stdio", 3)) {
        /* fopen with a mode, then a line, flushed at close; for reading modes: the first bytes. */
        char text[64] = "";
        touch(P(1));
        FILE *stream = fopen(P(1), W(2));
        if (outcome(stream ? 0 : -1) == -1)
            return true;
        for (long i = N(3); i > 0; i--)
            fprintf(stream, "%d\n", s->number);
        size_t got = fread(text, 1, sizeof text, stream);
        out_bytes(text, (long)got);
        outcome(fclose(stream));
    } else {
        return false;
    }
    return true;
}

/* The position of a directory is a cookie of the file system's (telldir(3)), and its end and its
 * holes are nothing: what the program says itself is compared, and that it may ask. */
static void seek_directory(int fd, long offset, int whence)
{
    if (whence == SEEK_SET)
        result(syscall(SYS_lseek, fd, offset, whence));
    else if (whence == SEEK_CUR)
        outcome(syscall(SYS_lseek, fd, 0, whence) == -1 ? -1 : 0);
    else
        out(" directory");
}

static bool sizes(struct step *s, int at)
{
    if (IS("lseek", 3)) {
        struct stat stat;
        if (fstat(F(1), &stat) == -1)
            result(-1);
        else if (S_ISDIR(stat.st_mode))
            seek_directory(F(1), N(2), (int)N(3));
        else
            result(syscall(SYS_lseek, F(1), N(2), (int)N(3)));
    } else if (IS("truncate", 2)) {
        result(truncate(P(1), N(2)));
    } else if (IS("ftruncate", 2)) {
        result(ftruncate(F(1), N(2)));
    } else if (IS("fallocate", 4)) {
        result(syscall(SYS_fallocate, F(1), (int)N(2), N(3), N(4)));
    } else if (IS("fsync", 1)) {
        result(fsync(F(1)));
    } else if (IS("fdatasync", 1)) {
        result(fdatasync(F(1)));
    } else if (IS("sync_range", 3)) {
        result(sync_file_range(F(1), N(2), N(3), SYNC_FILE_RANGE_WRITE));
    } else if (IS("fadvise", 3)) {
        result(posix_fadvise(F(1), N(2), N(3), POSIX_FADV_WILLNEED));
    } else if (IS("readahead", 3)) {
        result(readahead(F(1), N(2), (size_t)N(3)));
    } else {
        return false;
    }
    return true;
}

static bool mapping(struct step *s, int at)
{
    if (IS("mapread", 3)) {
        /* Bytes inside the file only: a page behind its end is SIGBUS. */
        struct stat stat;
        long length = N(3), left = fstat(F(1), &stat) ? 0 : stat.st_size - N(2);
        char *area = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, F(1), N(2));
        if (outcome(area == MAP_FAILED ? -1 : 0) == 0 && left > 0)
            out_bytes(area, length < left ? length : left);
    } else if (IS("mapwrite", 3)) {
        struct stat stat;
        long length = N(3), left = fstat(F(1), &stat) ? 0 : stat.st_size - N(2);
        char *area = mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_SHARED, F(1), N(2));
        if (outcome(area == MAP_FAILED ? -1 : 0) == -1)
            return true;
        if (left > 0)
            memset(area, '0' + s->number % 10, (size_t)(length < left ? length : left));
        outcome(msync(area, (size_t)length, MS_SYNC));
        munmap(area, (size_t)length);
    } else if (IS("poll", 2)) {
        struct pollfd one = { F(1), (short)N(2), 0 };
        result(poll(&one, 1, 0));
        out(" revents=%x", one.revents);
    } else if (IS("fionread", 1)) {
        int count = -1;
        if (result(ioctl(F(1), FIONREAD, &count)) == 0)
            out(" %d", count);
    } else {
        return false;
    }
    return true;
}

bool file_operation(struct step *s, int at)
{
    return opening(s, at) || reading(s, at) || writing(s, at) || sizes(s, at) || mapping(s, at);
}
