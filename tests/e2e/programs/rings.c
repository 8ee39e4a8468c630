/* io_uring: what works as without mounts, on files of the working directory and beside it. Usage:
 * rings GROUP, with OUTSIDE a directory beside the mount. */
#include "ring.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

static char text[] = "abcdefghijklmnopqrstuvwxyz";

static void contents(const char *name)
{
    char bytes[200] = "";
    int fd = must_open(name, O_RDONLY);
    ssize_t count = pread(fd, bytes, sizeof bytes - 1, 0);
    for (ssize_t i = 0; i < count; i++)
        if (!bytes[i])
            bytes[i] = '.';
    printf("%s: %zd %s\n", name, count, bytes);
    close(fd);
}

/* Every operation on an open file. */
static void operations(int shared)
{
    struct ring r = ring_must(8, 0);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (shared) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    char a[40] = "", b[40] = "";
    struct iovec out[2] = { { text, 3 }, { text + 10, 4 } }, in[2] = { { a, 2 }, { b, 30 } };
    show_result("write", ring_one(&r, WRITE, fd, text, 26, 0));
    show_result("write at the offset", ring_one(&r, WRITE, fd, text, 5, -1));
    show_result("write at the offset", ring_one(&r, WRITE, fd, text + 20, 5, -1));
    show_result("writev", ring_one(&r, WRITEV, fd, out, 2, 30));
    contents("file");
    show_result("readv", ring_one(&r, READV, fd, in, 2, 5));
    printf("%s %s\n", a, b);
    memset(a, 0, sizeof a);
    show_result("read at the offset", ring_one(&r, READ, fd, a, 4, -1));
    show_result("read at the end", ring_one(&r, READ, fd, b, 4, 1000));
    printf("%s %lld\n", a, (long long)lseek(fd, 0, SEEK_CUR));
    show_result("read to nowhere", ring_one(&r, READ, fd, (void *)8, 4, 0));
    struct io_uring_sqe *sqe = ring_add(&r, WRITE, fd, "END", 3, 0);
    sqe->rw_flags = 0x10; /* RWF_APPEND */
    ring_run(&r, "append");
    contents("file");
    show_result("fsync", ring_one(&r, FSYNC, fd, NULL, 0, 0));
    ring_add(&r, FSYNC, fd, NULL, 0, 0)->fsync_flags = 1;
    ring_run(&r, "fdatasync");
    ring_add(&r, SYNC_RANGE, fd, NULL, 4096, 0)->sync_range_flags = 2;
    ring_run(&r, "sync_file_range");
    ring_add(&r, FADVISE, fd, NULL, 4096, 0)->fadvise_advice = 3;
    ring_run(&r, "fadvise");
    show_result("fallocate", ring_one(&r, FALLOCATE, fd, (void *)50, 0, 0));
    contents("file");
    show_result("ftruncate", ring_one(&r, FTRUNCATE, fd, NULL, 0, 7));
    contents("file");
    char value[16] = "";
    sqe = ring_add(&r, FGETXATTR, fd, "user.none", 16, (uintptr_t)value);
    ring_run(&r, "fgetxattr");
    show_result("poll", ring_one(&r, POLL_ADD, -1, NULL, 0, 0));
    int once = open("file", O_RDONLY);
    show_result("write to what is open for reading", ring_one(&r, WRITE, once, text, 3, 0));
    show_result("close", ring_one(&r, CLOSE, once, NULL, 0, 0));
    WORKS(fcntl(once, F_GETFD));
    show_result("read of what is closed", ring_one(&r, READ, once, a, 3, 0));
    int again = open("file", O_RDONLY);
    printf("the same number: %d\n", again == once);
    show_result("read of another", ring_one(&r, READ, again, a, 3, 0));
    int append = open("file", O_WRONLY | O_APPEND);
    show_result("O_APPEND", ring_one(&r, WRITE, append, "tail", 4, 0));
    contents("file");
    int directory = open(".", O_RDONLY | O_DIRECTORY);
    show_result("read of a directory", ring_one(&r, READ, directory, a, 3, 0));
    show_result("fsync of a directory", ring_one(&r, FSYNC, directory, NULL, 0, 0));
    int path = open("file", O_PATH);
    show_result("read of O_PATH", ring_one(&r, READ, path, a, 3, 0));
    unlink("file");
}

/* What no request of the kernel's may have: it is not done as if it were not there. */
static void malformed(void)
{
    static const struct { const char *name; int operation; } all[] = {
        { "read", READ }, { "write", WRITE }, { "fsync", FSYNC }, { "sync_file_range", SYNC_RANGE }, { "fallocate", FALLOCATE },
        { "ftruncate", FTRUNCATE }, { "fadvise", FADVISE }, { "fgetxattr", FGETXATTR }, { "close", CLOSE },
    };
    static const char *const fields[] = { "priority", "buffer", "file index", "flags", "length", "address", "offset", "address3", "attributes", "flag" };
    struct ring r = ring_must(8, 0);
    char byte[16] = "w";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            int operation = all[i].operation, fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
            if (write(fd, text, 26) != 26)
                die("file");
            struct io_uring_sqe *sqe = ring_add(&r, operation, fd, NULL, 0, 0);
            if (operation == READ || operation == WRITE)
                sqe->addr = (uintptr_t)byte, sqe->len = 1;
            if (operation == FALLOCATE)
                sqe->addr = 40;
            if (operation == FGETXATTR)
                sqe->addr = (uintptr_t)"user.none", sqe->len = 16, sqe->off = (uintptr_t)byte;
            switch (k) {
            case 0: sqe->ioprio = 1; break;
            case 1: sqe->buf_index = 1; break;
            case 2: sqe->splice_fd_in = 1; break;
            case 3: sqe->rw_flags = 1 << 20; break;
            case 4: sqe->len += sqe->len ? 0 : 4; break;
            case 5: sqe->addr += sqe->addr ? 0 : 4; break;
            case 6: sqe->off += sqe->off ? 0 : 4; break;
            case 7: sqe->addr3 = 4; break;
            case 8: ((uint64_t *)sqe)[7] = 1 << 20; break;
            case 9: sqe->flags = 0x80; break;
            }
            char what[80];
            snprintf(what, sizeof what, "%s with %s", all[i].name, fields[k]);
            ring_run(&r, what);
            struct stat status;
            if (stat("file", &status) != 0 || status.st_size < 26)
                printf("%s: the file has %lld bytes\n", what, (long long)status.st_size);
            printf("%s\n", fcntl(fd, F_GETFD) < 0 ? "closed" : "open");
            close(fd);
        }
    /* Of a file's length what is not the request's is not taken either. */
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct io_uring_sqe *sqe = ring_add(&r, READ, fd, byte, 1, 0);
    sqe->ioprio = 2 << 13 | 4;
    ring_run(&r, "with a priority");
    WORKS(syscall(SYS_io_uring_enter, -1, 0, 0, -1, NULL, 0));
    unlink("file");
}

static void alone(void)
{
    operations(0);
}

static void shared(void)
{
    operations(1);
}

static int made(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, 26) != 26)
        die(name);
    return fd;
}

/* Chains, barriers, many requests at once. */
static void chains(void)
{
    struct ring r = ring_must(32, 0);
    char a[64] = "", outside[4096];
    snprintf(outside, sizeof outside, "%s/chained", getenv("OUTSIDE"));
    int fd = made("chained"), other = made(outside);
    ring_add(&r, WRITE, fd, "one", 3, 0)->flags = LINK;
    ring_add(&r, READ, fd, a, 6, 0)->flags = LINK;
    ring_add(&r, WRITE, fd, a, 6, 20)->flags = LINK;
    ring_add(&r, FSYNC, fd, NULL, 0, 0);
    ring_run(&r, "in order");
    contents("chained");
    ring_add(&r, READ, fd, a, 60, 0)->flags = LINK;
    ring_add(&r, WRITE, fd, "never", 5, 0)->flags = LINK;
    ring_add(&r, FSYNC, fd, NULL, 0, 0);
    ring_run(&r, "broken by a short read");
    ring_add(&r, READ, fd, (void *)8, 6, 0)->flags = LINK;
    ring_add(&r, WRITE, fd, "never", 5, 0);
    ring_add(&r, READ, fd, a, 3, 0);
    ring_run(&r, "broken by an error");
    ring_add(&r, READ, fd, a, 60, 0)->flags = HARDLINK;
    ring_add(&r, WRITE, fd, "hard", 4, 0);
    ring_run(&r, "not broken");
    contents("chained");
    struct __kernel_timespec second = { 1, 0 };
    ring_add(&r, READ, fd, a, 5, 0)->flags = LINK;
    ring_add(&r, LINK_TIMEOUT, -1, &second, 1, 0);
    ring_run(&r, "with a timeout");
    ring_add(&r, READ, fd, a, 3, 0)->flags = LINK;
    ring_add(&r, WRITE, other, a, 3, 0)->flags = LINK;
    ring_add(&r, FSYNC, other, NULL, 0, 0);
    ring_run(&r, "from one to the other");
    contents(outside);
    ring_add(&r, WRITE, other, "xyz", 3, 3);
    ring_add(&r, FSYNC, fd, NULL, 0, 0)->flags = DRAIN;
    ring_run(&r, "a barrier");
    for (int i = 0; i < 30; i++)
        ring_add(&r, i % 2 ? WRITE : READ, i % 3 ? fd : other, i % 2 ? text + i % 26 : a, 1, i);
    ring_run(&r, "many");
    contents("chained");
    contents(outside);
    for (int i = 0; i < 3; i++) {
        ring_add(&r, WRITE, fd, text, 2, 0);
        ring_add(&r, 200, -1, NULL, 0, 0);
        ring_add(&r, WRITE, fd, "Q", 1, -1);
        /* The kernel stops behind a request that it does not know; what is behind it is submitted
         * by the next call. */
        unsigned before = *WORD(&r, r.p.sq_off.head);
        printf("taken %d", ring_enter(&r, 3, 0));
        printf(" and %d", ring_enter(&r, 3 - (*WORD(&r, r.p.sq_off.head) - before), 0));
        ring_enter(&r, 0, 3);
        struct io_uring_cqe cqe;
        int sum = 0;
        while (ring_take(&r, &cqe))
            sum += cqe.res;
        printf(", in all %d", sum);
        puts("");
    }
    contents("chained");
}

/* What has nothing to do with a mount: sockets, timers, epoll, registered files. */
static void others(void)
{
    struct ring r = ring_must(8, 0);
    char a[64] = "", outside[4096];
    int pair[2], pipes[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (pipe(pipes) != 0)
        die("pipe");
    show_result("send", ring_one(&r, SEND, pair[0], text, 10, 0));
    /* To an address that cannot be read, and to none. */
    ring_add(&r, SEND, pair[0], text, 1, 8)->splice_fd_in = 16;
    ring_run(&r, "send to nowhere");
    ring_add(&r, SEND, pair[1], text, 1, 0)->splice_fd_in = 16;
    ring_run(&r, "send to no address");
    ring_add(&r, SEND, pair[1], text, 1, (uintptr_t)text)->splice_fd_in = 1000;
    ring_run(&r, "send to too long an address");
    show_result("connect to nowhere", ring_one(&r, CONNECT, pair[0], (void *)8, 0, 16));
    show_result("recv", ring_one(&r, RECV, pair[1], a, 20, 0));
    printf("%s\n", a);
    struct __kernel_timespec soon = { 0, 1000 };
    show_result("timeout", ring_one(&r, TIMEOUT, -1, &soon, 1, 0));
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    show_result("epoll_ctl", ring_one(&r, EPOLL_CTL, epoll, &event, EPOLL_CTL_ADD, pipes[0]));
    int file = made("of-the-mount");
    show_result("epoll_ctl of a file", ring_one(&r, EPOLL_CTL, epoll, &event, EPOLL_CTL_ADD, file));
    int files[2] = { pipes[0], pipes[1] };
    WORKS(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, files, 2));
    ring_add(&r, WRITE, 1, text, 5, 0)->flags = FIXED;
    ring_add(&r, READ, 0, a, 5, 0)->flags = FIXED;
    ring_run(&r, "registered");
    snprintf(outside, sizeof outside, "%s/s", getenv("OUTSIDE"));
    struct sockaddr_un name = { AF_UNIX };
    if (strlen(outside) < sizeof name.sun_path)
        strcpy(name.sun_path, outside);
    else
        snprintf(name.sun_path, sizeof name.sun_path, "/tmp/culvert-rings-%d", getpid());
    unlink(name.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    show_result("bind", ring_one(&r, BIND, listener, &name, 0, sizeof name));
    WORKS(listen(listener, 3));
    show_result("connect", ring_one(&r, CONNECT, client, &name, 0, sizeof name));
    int server = ring_one(&r, ACCEPT, listener, NULL, 0, 0);
    printf("accepted %d\n", server >= 0);
    unlink(name.sun_path);
    /* A file of the mount goes through a socket by the ring, and comes back by a call. */
    char control[CMSG_SPACE(sizeof(int))] = "";
    struct iovec byte = { text, 1 };
    struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    show_result("sendmsg", ring_one(&r, SENDMSG, pair[0], &message, 1, 0));
    WORKS(recvmsg(pair[1], &message, 0));
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    memset(a, 0, sizeof a);
    printf("%zd %s\n", pread(received, a, 6, 2), a);
    show_result("the same by a ring", ring_one(&r, READ, received, a, 6, 3));
    printf("%s\n", a);
    /* Beside the mount. */
    snprintf(outside, sizeof outside, "%s/beside", getenv("OUTSIDE"));
    int beside = made(outside);
    ring_add(&r, READ, beside, a, 6, 4)->flags = FORCE_ASYNC;
    ring_run(&r, "beside");
    printf("%s\n", a);
    int spliced = ring_one(&r, SPLICE, -1, NULL, 0, 0);
    show_result("splice of nothing", spliced);
}

/* The number of a ring: dup, close, the same number for something else, two mappings, fork. */
static void numbers(void)
{
    struct ring r = ring_must(8, 0), s = r;
    char a[64] = "";
    int fd = made("numbered");
    s.fd = dup(r.fd);
    show_result("by a dup", ring_one(&s, READ, fd, a, 5, 0));
    s.fd = fcntl(r.fd, F_DUPFD_CLOEXEC, 100);
    show_result("by a high dup", ring_one(&s, READ, fd, a, 5, 0));
    close(s.fd);
    WORKS(ring_enter(&s, 1, 0));
    struct ring two = { .fd = r.fd, .p = r.p };
    if (ring_map(&two) != 0)
        die("second mapping");
    show_result("by another mapping", ring_one(&two, READ, fd, a, 4, 0));
    munmap(r.queue, r.queue_size);
    munmap(r.sqes, r.sqes_size);
    show_result("by the one that is left", ring_one(&two, READ, fd, a, 3, 0));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        show_result("in a child", ring_one(&two, READ, fd, a, 7, 0));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    show_result("in the parent", ring_one(&two, READ, fd, a, 8, 0));
    int number = two.fd;
    close(number);
    int file = fcntl(open("numbered", O_RDONLY), F_DUPFD, 50);
    dup2(file, number);
    two.fd = number;
    WORKS(ring_enter(&two, 1, 0));
    printf("%zd\n", read(number, a, 5));
    close(number);
    struct ring fresh = ring_must(8, 0);
    show_result("another ring", ring_one(&fresh, READ, file, a, 9, 0));
    for (int i = 0; i < 200; i++) {
        struct ring each = ring_must(4, 0);
        if (ring_one(&each, READ, file, a, 3, 0) != 3)
            die("one of many");
        munmap(each.queue, each.queue_size);
        munmap(each.sqes, each.sqes_size);
        close(each.fd);
    }
    puts("many");
    WORKS(syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0));
    WORKS(syscall(SYS_io_uring_enter, -1, 1, 0, 0, NULL, 0));
    WORKS(syscall(SYS_io_uring_setup, 0, &fresh.p));
    WORKS(syscall(SYS_io_uring_setup, 8, NULL));
    WORKS(mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fresh.fd, IORING_OFF_SQES));
}

/* What a program forbids its own ring. */
static void restricted(void)
{
    struct ring r = ring_must(8, IORING_SETUP_R_DISABLED);
    char a[64] = "";
    int fd = made("restricted");
    ring_add(&r, READ, fd, a, 3, 0);
    WORKS(ring_enter(&r, 1, 0));
    struct io_uring_restriction only[2] = { { .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = READ }, { .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = LINK } };
    WORKS(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_RESTRICTIONS, only, 2));
    WORKS(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0));
    ring_run(&r, "read");
    ring_add(&r, WRITE, fd, "no", 2, 0);
    ring_run(&r, "write");
    ring_add(&r, IORING_OP_NOP, -1, NULL, 0, 0);
    ring_run(&r, "nop");
    ring_add(&r, READ, fd, a, 3, 0)->flags = DRAIN;
    ring_run(&r, "drain");
    ring_add(&r, READ, fd, a, 3, 0)->flags = LINK;
    ring_add(&r, READ, fd, a, 3, 0);
    ring_run(&r, "linked");
    WORKS(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, &(int){ 0 }, 1));
    contents("restricted");
}

static struct ring shared_ring;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *submit_many(void *argument)
{
    int fd = *(int *)argument;
    static __thread char bytes[30];
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&lock);
        int result = ring_one(&shared_ring, READ, fd, bytes, 26, 0);
        pthread_mutex_unlock(&lock);
        if (result != 26 || memcmp(bytes, text, 26) != 0)
            die("read by a thread");
    }
    return NULL;
}

/* Threads that share a ring, one that waits while another submits, one thread alone that may. */
static void *read_later(void *argument)
{
    int *pipes = argument;
    ring_add(&shared_ring, READ, pipes[0], text, 0, 0);
    return write(pipes[1], "x", 1) == 1 ? NULL : argument;
}

static void *submit_as_stranger(void *argument)
{
    struct ring *r = argument;
    WORKS(ring_enter(r, 1, 0));
    return NULL;
}

static void threads(void)
{
    shared_ring = ring_must(8, 0);
    int fd = made("threads"), pipes[2];
    pthread_t four[4], one;
    for (int i = 0; i < 4; i++)
        pthread_create(&four[i], NULL, submit_many, &fd);
    for (int i = 0; i < 4; i++)
        pthread_join(four[i], NULL);
    if (pipe(pipes) != 0)
        die("pipe");
    char byte;
    ring_add(&shared_ring, READ, pipes[0], &byte, 1, 0);
    pthread_create(&one, NULL, read_later, pipes);
    printf("submitted %d\n", ring_enter(&shared_ring, 1, 1));
    pthread_join(one, NULL);
    struct ring r = ring_must(8, IORING_SETUP_SINGLE_ISSUER);
    ring_add(&r, WRITE, fd, "not yet", 7, 0);
    pthread_create(&one, NULL, submit_as_stranger, &r);
    pthread_join(one, NULL);
    contents("threads");
    ring_run(&r, "by the thread that may");
    contents("threads");
}

/* A file of any mount, in pieces. */
static void reading(const char *name)
{
    struct ring r = ring_must(8, 0);
    static char bytes[100000];
    int fd = must_open(name, O_RDONLY);
    for (int i = 0; i < 5; i++)
        ring_add(&r, READ, fd, bytes + 300 * i, 300, 300 * i);
    ring_run(&r, "read");
    printf("%llx\n", (unsigned long long)digest(bytes, sizeof bytes));
    show_result("write", ring_one(&r, WRITE, fd, bytes, 3, 0));
    show_result("fsync", ring_one(&r, FSYNC, fd, NULL, 0, 0));
    show_result("close", ring_one(&r, CLOSE, fd, NULL, 0, 0));
}

static const struct group groups[] = {
    { "alone", alone }, { "shared", shared }, { "chains", chains }, { "malformed", malformed }, { "others", others }, { "numbers", numbers }, { "restricted", restricted }, { "threads", threads },
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "reading") == 0) {
        reading(argv[2]);
        return 0;
    }
    /* Whether there are rings, and NOPs whose end can be chosen: IORING_FEAT_RECVSEND_BUNDLE came
     * with them. */
    struct ring r;
    if (ring_make(&r, 1, 0) != 0 || !(r.p.features & 1 << 14))
        return 3;
    close(r.fd);
    return RUN_GROUP(groups, argv[1]);
}
