/* io_uring by raw system calls; numbers from include/uapi/linux/io_uring.h, which may be newer than
 * the installed header. */
#ifndef RING_H
#define RING_H
#include "probe.h"
#include <linux/io_uring.h>

enum {
    READV = 1, WRITEV = 2, FSYNC = 3, READ_FIXED = 4, POLL_ADD = 6, SYNC_RANGE = 8, SENDMSG = 9, RECVMSG = 10, TIMEOUT = 11, ACCEPT = 13,
    LINK_TIMEOUT = 15, CONNECT = 16, FALLOCATE = 17, OPENAT = 18, CLOSE = 19, STATX = 21, READ = 22, WRITE = 23, FADVISE = 24,
    SEND = 26, RECV = 27, OPENAT2 = 28, EPOLL_CTL = 29, SPLICE = 30, TEE = 33, RENAMEAT = 35, UNLINKAT = 36, MKDIRAT = 37, SYMLINKAT = 38,
    LINKAT = 39, MSG_RING = 40, FSETXATTR = 41, SETXATTR = 42, FGETXATTR = 43, GETXATTR = 44, SOCKET = 45, FTRUNCATE = 55, BIND = 56,
};
enum { FIXED = 1, DRAIN = 2, LINK = 4, HARDLINK = 8, FORCE_ASYNC = 16 };

struct ring {
    int fd;
    struct io_uring_params p;
    char *queue, *sqes;
    size_t queue_size, sqes_size;
};

#define WORD(ring, offset) ((_Atomic unsigned *)((ring)->queue + (offset)))

static inline int ring_map(struct ring *r)
{
    size_t sq = r->p.sq_off.array + r->p.sq_entries * 4, cq = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
    r->queue_size = sq > cq ? sq : cq;
    r->sqes_size = r->p.sq_entries * sizeof(struct io_uring_sqe);
    r->queue = mmap(NULL, r->queue_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    if (r->queue == MAP_FAILED)
        return -1;
    r->sqes = mmap(NULL, r->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
    return r->sqes == MAP_FAILED ? -1 : 0;
}

static inline int ring_make(struct ring *r, unsigned entries, unsigned flags)
{
    memset(r, 0, sizeof *r);
    r->p.flags = flags;
    r->fd = syscall(SYS_io_uring_setup, entries, &r->p);
    if (r->fd < 0)
        return -1;
    return ring_map(r);
}

static inline struct ring ring_must(unsigned entries, unsigned flags)
{
    struct ring r;
    if (ring_make(&r, entries, flags) != 0)
        die("io_uring_setup");
    return r;
}

/* The next request, in the queue; `at` counts those that are not submitted yet. */
static inline struct io_uring_sqe *ring_add(struct ring *r, int operation, int fd, const void *address, unsigned length, uint64_t offset)
{
    unsigned tail = *WORD(r, r->p.sq_off.tail), index = tail & (r->p.sq_entries - 1);
    struct io_uring_sqe *sqe = (struct io_uring_sqe *)r->sqes + index;
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = operation;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)address;
    sqe->len = length;
    sqe->off = offset;
    ((unsigned *)(r->queue + r->p.sq_off.array))[index] = index;
    *WORD(r, r->p.sq_off.tail) = tail + 1;
    return sqe;
}

static inline int ring_enter(struct ring *r, unsigned submit, unsigned wait)
{
    return syscall(SYS_io_uring_enter, r->fd, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

/* The oldest completion, if there is one. */
static inline int ring_take(struct ring *r, struct io_uring_cqe *into)
{
    unsigned head = *WORD(r, r->p.cq_off.head);
    if (head == *WORD(r, r->p.cq_off.tail))
        return 0;
    *into = ((struct io_uring_cqe *)(r->queue + r->p.cq_off.cqes))[head & (r->p.cq_entries - 1)];
    *WORD(r, r->p.cq_off.head) = head + 1;
    return 1;
}

static inline void show_result(const char *what, int result)
{
    if (result < 0)
        printf("%s: %s\n", what, error_name(-result));
    else
        printf("%s: %d\n", what, result);
    fflush(stdout);
}

/* Submits all that is queued, waits for as many ends, and says in the order of user_data what they
 * were. */
static inline void ring_run(struct ring *r, const char *what)
{
    int results[64], count = *WORD(r, r->p.sq_off.tail) - *WORD(r, r->p.sq_off.head), first = *WORD(r, r->p.sq_off.head);
    for (int i = 0; i < count; i++)
        ((struct io_uring_sqe *)r->sqes)[(first + i) & (r->p.sq_entries - 1)].user_data = i;
    int taken = ring_enter(r, count, count);
    if (taken != count)
        printf("%s: submitted %d of %d %s\n", what, taken, count, taken < 0 ? error_name(errno) : "");
    for (int i = 0; i < taken; i++) {
        struct io_uring_cqe cqe;
        if (!ring_take(r, &cqe) && (ring_enter(r, 0, 1), !ring_take(r, &cqe)))
            die("completion");
        results[cqe.user_data & 63] = cqe.res;
    }
    for (int i = 0; i < taken; i++)
        show_result(what, results[i]);
}

static inline int ring_one(struct ring *r, int operation, int fd, const void *address, unsigned length, uint64_t offset)
{
    ring_add(r, operation, fd, address, length, offset);
    if (ring_enter(r, 1, 1) != 1)
        return -errno;
    struct io_uring_cqe cqe;
    return ring_take(r, &cqe) ? cqe.res : -EIO;
}
#endif
