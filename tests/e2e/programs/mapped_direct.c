// Reads with O_DIRECT into a mapping, while another thread syncs it: every byte that was read is in
// the file. usage: mapped_direct WHAT FILE SOURCE; WHAT: `read`, `vector`, `dup`, `asynchronous`
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STEP = 1 << 20, STEPS = 24, LENGTH = STEPS * STEP };

static char *bytes, content[LENGTH];
static int stop;

static void *syncing(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        if (msync(bytes, LENGTH, MS_ASYNC)) err(2, "msync");
    return 0;
}

static void asynchronous(int source) {
    aio_context_t context = 0;
    static struct iocb blocks[STEPS];
    struct iocb *list[STEPS];
    struct io_event events[STEPS];
    if (syscall(SYS_io_setup, STEPS, &context)) err(2, "io_setup");
    for (int i = 0; i < STEPS; i++) {
        blocks[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = source, .aio_nbytes = STEP};
        blocks[i].aio_buf = (uintptr_t)(bytes + i * STEP), blocks[i].aio_offset = i * STEP, list[i] = &blocks[i];
    }
    for (long done = 0; done < STEPS;) {
        long count = syscall(SYS_io_submit, context, STEPS - done, list + done);
        if (count <= 0) err(2, "io_submit");
        done += count;
    }
    if (syscall(SYS_io_getevents, context, STEPS, STEPS, events, 0) != STEPS) err(2, "io_getevents");
    for (int i = 0; i < STEPS; i++) if (events[i].res != STEP) errx(2, "event %d: %lld", i, (long long)events[i].res);
    if (syscall(SYS_io_destroy, context)) err(2, "io_destroy");
}

int main(int count, char **words) {
    if (count != 4) return 64;
    const char *what = words[1];
    for (int i = 0; i < LENGTH; i++) content[i] = 1 + i / 4096 % 250;
    int source = open(words[3], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (source < 0 || write(source, content, LENGTH) != LENGTH || fsync(source) || close(source)) err(2, "%s", words[3]);
    source = open(words[3], O_RDONLY | O_DIRECT);
    if (source < 0 && errno == EINVAL) return puts("no O_DIRECT here"), 0;
    int fd = open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (source < 0 || fd < 0 || ftruncate(fd, LENGTH)) err(2, "%s", words[2]);
    bytes = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) err(2, "mmap");
    pthread_t thread;
    if (pthread_create(&thread, 0, syncing, 0)) errx(2, "pthread_create");
    if (!strcmp(what, "dup")) source = dup(source);
    if (!strcmp(what, "asynchronous")) asynchronous(source);
    else for (int i = 0; i < STEPS; i++) {
        char *at = bytes + i * STEP;
        struct iovec parts[] = {{at, STEP / 4}, {at + STEP / 4, STEP - STEP / 4}};
        ssize_t got = !strcmp(what, "vector") ? readv(source, parts, 2) : !strcmp(what, "dup") ? read(source, at, STEP) : pread(source, at, STEP, i * STEP);
        if (got != STEP) err(2, "read: %zd", got);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, 0);
    // What is no address, and no place for a device to put a byte, is the same as ever; past the
    // end there is nothing.
    errno = 0;
    printf("nowhere %zd", pread(source, (void *)4096, 4096, 0));
    printf(" %s, ", strerrorname_np(errno));
    printf("at the end %zd\n", pread(source, bytes, 4096, LENGTH));
    if (msync(bytes, LENGTH, MS_SYNC) || munmap(bytes, LENGTH) || fsync(fd)) err(2, "sync");
    static char seen[LENGTH];
    if (pread(fd, seen, LENGTH, 0) != LENGTH) err(2, "pread");
    int wrong = 0;
    for (int i = 0; i < LENGTH; i++) wrong += seen[i] != content[i];
    printf("%s: %d bytes differ\n", what, wrong);
    return wrong != 0;
}
