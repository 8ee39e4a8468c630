// Linux AIO by raw system calls: what is submitted, what the events say, and what the files are
// then.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static aio_context_t context;

static struct iocb make(int fd, int operation, const void *buffer, size_t length, long offset)
{
    struct iocb block = { .aio_fildes = fd, .aio_lio_opcode = operation, .aio_offset = offset };
    block.aio_buf = (uintptr_t)buffer;
    block.aio_nbytes = length;
    return block;
}

// Submits the blocks, waits for what was taken, and says what became of each; they must be as they
// were.
static void submit(const char *what, struct iocb *blocks, int count)
{
    struct iocb *list[16], before[16];
    for (int i = 0; i < count; i++) {
        blocks[i].aio_data = 100 + i;
        list[i] = &blocks[i];
        before[i] = blocks[i];
    }
    long taken = syscall(SYS_io_submit, context, (long)count, list);
    printf("%s: %ld %s\n", what, taken, taken < 0 ? strerror(errno) : "");
    struct io_event events[16];
    long got = taken > 0 ? syscall(SYS_io_getevents, context, taken, taken, events, NULL) : 0;
    for (int i = 0; i < count; i++) {
        for (long e = 0; e < got; e++)
            if (events[e].obj == (uintptr_t)&blocks[i])
                printf("  %d: data %lld result %lld %lld\n", i, (long long)events[e].data, (long long)events[e].res, (long long)events[e].res2);
        blocks[i].aio_key = before[i].aio_key;
        if (memcmp(&blocks[i], &before[i], sizeof before[i]) != 0)
            printf("  %d: changed\n", i);
    }
}

static void show(const char *name)
{
    char text[64] = "";
    int fd = open(name, O_RDONLY);
    struct stat status;
    fstat(fd, &status);
    ssize_t count = read(fd, text, sizeof text - 1);
    printf("%s: %lld bytes, %zd: %s\n", name, (long long)status.st_size, count, text);
    close(fd);
}

int main(void)
{
    if (syscall(SYS_io_setup, 8, &context) != 0)
        return perror("io_setup"), 1;
    int a = open("a", O_RDWR | O_CREAT | O_TRUNC, 0644), b = open("b", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0644), reader = open("a", O_RDONLY);
    char first[32] = "", second[32] = "";
    struct iovec parts[2] = { { "vec", 3 }, { "tored", 5 } }, into[2] = { { first, 4 }, { second, 20 } };

    struct iocb writes[] = { make(a, IOCB_CMD_PWRITE, "hello world", 11, 0), make(b, IOCB_CMD_PWRITEV, parts, 2, 3),
        make(log, IOCB_CMD_PWRITE, "one ", 4, 0), make(log, IOCB_CMD_PWRITE, "two", 3, 0), make(a, IOCB_CMD_FSYNC, NULL, 0, 0),
        make(b, IOCB_CMD_FDSYNC, NULL, 0, 0) };
    submit("writes", writes, 6);
    show("a"), show("b"), show("log");

    struct iocb reads[] = { make(reader, IOCB_CMD_PREAD, first, 5, 6), make(a, IOCB_CMD_PREAD, second, 30, 9), make(a, IOCB_CMD_PREAD, second + 8, 5, 100) };
    submit("reads", reads, 3);
    printf("%s|%.2s\n", first, second);
    struct iocb vector = make(b, IOCB_CMD_PREADV, into, 2, 3);
    submit("readv", &vector, 1);
    printf("%.4s|%.4s\n", first, second);

    int counter = eventfd(0, EFD_NONBLOCK);
    struct iocb told[] = { make(a, IOCB_CMD_PWRITE, "J", 1, 0), make(a, IOCB_CMD_PREAD, first, 5, 0) };
    for (int i = 0; i < 2; i++)
        told[i].aio_flags = IOCB_FLAG_RESFD, told[i].aio_resfd = counter;
    submit("eventfd", told, 2);
    uint64_t signalled = 0;
    if (read(counter, &signalled, sizeof signalled) < 0)
        perror("read");
    printf("%llu %.5s\n", (unsigned long long)signalled, first);
    told[0].aio_resfd = 999;
    submit("no eventfd", told, 1);

    struct iocb bad = make(reader, IOCB_CMD_PWRITE, "x", 1, 0);
    submit("not for writing", &bad, 1);
    bad = make(log, IOCB_CMD_PREAD, first, 1, 0);
    submit("not for reading", &bad, 1);
    bad = make(a, IOCB_CMD_PREAD, first, 1, -5);
    submit("negative offset", &bad, 1);
    bad = make(a, 77, first, 1, 0);
    submit("no operation", &bad, 1);
    bad = make(a, IOCB_CMD_FSYNC, first, 0, 0);
    submit("fsync with a buffer", &bad, 1);
    void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iocb faults[] = { make(a, IOCB_CMD_PREAD, nothing, 5, 0), make(a, IOCB_CMD_PWRITE, nothing, 5, 0) };
    submit("bad memory", faults, 2);
    struct iocb some[] = { make(a, IOCB_CMD_PWRITE, "1", 1, 11), make(999, IOCB_CMD_PWRITE, "2", 1, 12), make(a, IOCB_CMD_PWRITE, "3", 1, 13) };
    submit("the second is bad", some, 3);

    struct iocb *list[2] = { &some[0], (void *)8 };
    printf("bad pointer: %ld\n", syscall(SYS_io_submit, context, 2L, list));
    struct io_event event;
    printf("its event: %ld\n", syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL));
    long none = syscall(SYS_io_submit, (aio_context_t)4096, 1L, list);
    printf("no context: %ld %s\n", none, strerror(errno));

    // A full context must not append anything.
    long appended = 0, result;
    struct iocb more = make(log, IOCB_CMD_PWRITE, "+", 1, 0), *one[1] = { &more };
    while ((result = syscall(SYS_io_submit, context, 1L, one)) == 1)
        appended++;
    struct stat status;
    int full = errno;
    fstat(log, &status);
    printf("full: %s, %s\n", strerror(full), status.st_size == 7 + appended ? "each once" : "not as many as were taken");
    show("a");
    printf("destroyed: %ld\n", syscall(SYS_io_destroy, context));
    return 0;
}
