/* Arguments that few programs use: structures longer than their calls know, links that are not to
 * be followed, long addresses of sockets, and what every file answers whatever it is. Usage:
 * arguments GROUP, in a directory that can be written. */
#include "probe.h"
#include <linux/fs.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_getxattrat 464
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif
#ifndef F_CREATED_QUERY
#define F_CREATED_QUERY 1028
#endif

/* A structure at the end of a page, with nothing mapped behind. */
static char *before_nothing(size_t size)
{
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 2 * 4096, 4096);
    return pages + 2 * 4096 - size;
}

/* Calls `try` with a structure of `known` bytes, of `size` given, `byte` behind those that are
 * known. */
static void sizes(const char *what, const void *known, size_t length, long (*try)(void *, size_t))
{
    static char room[8192];
    static const size_t more[] = { 0, 1, 8, 64, 4096, 5000 };
    char line[100];
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        for (int byte = 0; byte < 2; byte++) {
            size_t size = more[i] == 4096 ? 4096 : length + more[i];
            memset(room, 0, sizeof room);
            memcpy(room, known, length);
            if (size > length)
                room[size - 1] = (char)byte;
            sprintf(line, "%s of %zu, %d behind", what, size, byte);
            errno = 0;
            works(line, try(room, size));
        }
    for (size_t less = 1; less < length; less += 5) {
        memcpy(room, known, length);
        sprintf(line, "%s of %zu", what, length - less);
        errno = 0;
        works(line, try(room, length - less));
    }
    char *end = before_nothing(length);
    memcpy(end, known, length);
    sprintf(line, "%s at the end of memory", what);
    works(line, try(end, length));
    sprintf(line, "%s of which a part cannot be read", what);
    works(line, try(end, length + 8));
    sprintf(line, "%s that cannot be read", what);
    works(line, try(end + length, length));
}

static long try_open(void *how, size_t size)
{
    long fd = syscall(SYS_openat2, AT_FDCWD, "file", how, size);
    if (fd >= 0)
        close((int)fd);
    return fd;
}

static long try_set(void *arguments, size_t size)
{
    return syscall(SYS_setxattrat, AT_FDCWD, "file", 0, "user.a", arguments, size);
}

static long try_get(void *arguments, size_t size)
{
    return syscall(SYS_getxattrat, AT_FDCWD, "file", 0, "user.a", arguments, size);
}

static void group_structures(void)
{
    close(open("file", O_CREAT | O_WRONLY, 0600));
    struct open_how how = { .flags = O_RDONLY };
    sizes("openat2", &how, sizeof how, try_open);
    char value[16] = "value";
    struct { uint64_t value; uint32_t size, flags; } x = { (uintptr_t)value, 5, 0 };
    sizes("setxattrat", &x, sizeof x, try_set);
    x.size = 16;
    sizes("getxattrat", &x, sizeof x, try_get);
    x.flags = 1;
    WORKS(try_get(&x, sizeof x));
}

/* What is wrong with other arguments is said whatever the path is, and a link that is not followed
 * is none of its target's affair. */
static void group_refused(void)
{
    char attributes[64] = { 0 };
    int file = open("file", O_CREAT | O_RDWR, 0600), place = open("file", O_PATH);
    WORKS(symlink("nowhere", "link"));
    /* What is to be done is looked at before the descriptor. */
    WORKS(flock(place, LOCK_EX | LOCK_SH));
    WORKS(flock(place, LOCK_EX | LOCK_NB));
    WORKS(flock(999, LOCK_EX | LOCK_SH));
    WORKS(flock(999, LOCK_EX));
    WORKS(ioctl(file, FICLONE, place));
    WORKS(ioctl(file, FICLONE, 999));
    WORKS(ioctl(place, FICLONE, file));
    WORKS(fchdir(999));
    WORKS(fchdir(file));
    int fan = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
    if (fan >= 0) {
        WORKS(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "link"));
        WORKS(fanotify_mark(fan, FAN_MARK_ADD, 0, AT_FDCWD, "file"));
        WORKS(fanotify_mark(fan, 0x10000000, FAN_OPEN, AT_FDCWD, "file"));
        WORKS(fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "file"));
        /* Without a path it is the descriptor that is marked, and acct(2) ends. */
        int root = open("/", O_RDONLY | O_DIRECTORY);
        WORKS(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, root, NULL));
        WORKS(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, 999, NULL));
        WORKS(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, NULL));
        WORKS(acct(NULL));
    }
    WORKS(syscall(SYS_open_tree, AT_FDCWD, "link", O_CLOEXEC));
    WORKS(syscall(SYS_open_tree, AT_FDCWD, "file", 0x40000000));
    WORKS(syscall(SYS_file_getattr, AT_FDCWD, "link", attributes, 24, 0));
    WORKS(syscall(SYS_file_getattr, AT_FDCWD, "file", attributes, 24, 0x40000000));
    WORKS(syscall(SYS_file_getattr, AT_FDCWD, "file", attributes, 8, 0));
    WORKS(syscall(SYS_file_getattr, AT_FDCWD, "file", attributes, 5000, 0));
    WORKS(syscall(SYS_file_setattr, AT_FDCWD, "file", attributes, 8, 0));
    attributes[40] = 1;
    WORKS(syscall(SYS_file_setattr, AT_FDCWD, "file", attributes, 48, 0));
    WORKS(syscall(SYS_file_setattr, AT_FDCWD, "link", attributes, 24, 0));
    WORKS(syscall(SYS_mount_setattr, AT_FDCWD, "file", 0, attributes, 16));
    WORKS(syscall(SYS_mount_setattr, AT_FDCWD, "file", 0, attributes, 48));
}

/* Not followed, it is the link that is refused, which is there, or what it leads to, which is not.
 * Only Culvert refuses. */
static void group_links(void)
{
    char attributes[64] = { 0 };
    WORKS(symlink("nowhere", "link"));
    int fan = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
    WORKS(fanotify_mark(fan, FAN_MARK_ADD | FAN_MARK_DONT_FOLLOW, FAN_OPEN, AT_FDCWD, "link"));
    WORKS(syscall(SYS_open_tree, AT_FDCWD, "link", O_CLOEXEC | AT_SYMLINK_NOFOLLOW));
    WORKS(syscall(SYS_file_getattr, AT_FDCWD, "link", attributes, 24, AT_SYMLINK_NOFOLLOW));
    WORKS(syscall(SYS_file_setattr, AT_FDCWD, "link", attributes, 24, AT_SYMLINK_NOFOLLOW));
    WORKS(syscall(SYS_mount_setattr, AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, attributes, 32));
}

/* What openat2 is asked for counts where a link of the mount leads to a list of mounts, too. */
static void group_links_to_proc(void)
{
    static const struct { const char *name; uint64_t flags; } asked[] = {
        { "to read", O_RDONLY },
        { "to be closed at exec", O_RDONLY | O_CLOEXEC },
        { "the place", O_PATH },
        { "to write", O_WRONLY },
        { "a directory", O_RDONLY | O_DIRECTORY },
        { "no link", O_RDONLY | O_NOFOLLOW },
    };
    static const char *const lists[] = { "mounts", "mountinfo", "maps" };
    char target[64], line[100];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        sprintf(target, "/proc/self/%s", lists[i]);
        WORKS(symlink(target, lists[i]));
        for (size_t j = 0; j < sizeof asked / sizeof *asked; j++) {
            struct open_how how = { .flags = asked[j].flags };
            sprintf(line, "%s, %s", lists[i], asked[j].name);
            int fd = (int)syscall(SYS_openat2, AT_FDCWD, lists[i], &how, sizeof how);
            works(line, fd);
            if (fd < 0)
                continue;
            printf("  %d %x\n", fcntl(fd, F_GETFD), fcntl(fd, F_GETFL) & (O_WRONLY | O_PATH));
            close(fd);
        }
    }
}

static int bound(const char *path, const char *what)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX }, told;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, path, strlen(path) < 108 ? strlen(path) : 108);
    works(what, bind(fd, (void *)&address, (socklen_t)(2 + strlen(path))));
    socklen_t length = sizeof told;
    memset(&told, 0, sizeof told);
    getsockname(fd, (void *)&told, &length);
    printf("  named %d bytes %.108s\n", length, told.sun_path);
    return fd;
}

static void group_sockets(void)
{
    char name[200], path[300];
    struct stat found;
    mkdir("d", 0700);
    mkdir("d/e", 0700);
    symlink("d", "l");
    symlink(".", "here");
    for (int length = 60; length <= 108; length += 3) {
        memset(name, 'a' + length % 26, (size_t)length);
        for (int way = 0; way < 4; way++) {
            static const char *const before[] = { "", "d/", "l/e/", "here/d/../" };
            sprintf(path, "%s%.*s", before[way], length - (int)strlen(before[way]), name);
            char line[100];
            sprintf(line, "bind by %s, %zu bytes", before[way], strlen(path));
            int listener = bound(path, line);
            if (lstat(path, &found) != 0)
                continue;
            printf("  mode %o\n", found.st_mode);
            WORKS(listen(listener, 1));
            struct sockaddr_un address = { .sun_family = AF_UNIX };
            memcpy(address.sun_path, path, strlen(path));
            int client = socket(AF_UNIX, SOCK_STREAM, 0);
            WORKS(connect(client, (void *)&address, (socklen_t)(2 + strlen(path))));
            close(client);
            close(listener);
            WORKS(unlink(path));
        }
    }
    /* The same from the root, as long as that may be. */
    char here[200];
    if (getcwd(here, sizeof here)) {
        /* What is longer than 70 cannot be told by getsockname(2) where the source's path is
         * longer. */
        int room = 104 - (int)strlen(here) < 70 ? 104 - (int)strlen(here) : 70;
        for (int length = room > 20 ? 20 : 1; length <= room; length += 7) {
            sprintf(path, "%s/d/%.*s", here, length, name);
            int listener = bound(path, "bind from the root");
            WORKS(lstat(path, &found));
            WORKS(unlink(path));
            close(listener);
        }
    }
}

static void group_small(void)
{
    int fd = open("file", O_CREAT | O_RDWR | O_EXCL, 0600), again = open("file", O_RDWR | O_CREAT, 0600);
    int path = open("file", O_PATH), directory = open(".", O_RDONLY | O_DIRECTORY), dirpath = open(".", O_PATH);
    WORKS(write(fd, "0123456789", 10));
    for (int i = 0; i < 3; i++) {
        int one = (int[]){ fd, directory, path }[i];
        printf("descriptor %d\n", i);
        SHOW(sync_file_range(one, 0, 0, 7));
        SHOW(sync_file_range(one, 0, 5, 0));
        SHOW(sync_file_range(one, 0, 5, 8));
        SHOW(sync_file_range(one, -1, 5, 2));
        SHOW(sync_file_range(one, 0, -5, 2));
        SHOW(sync_file_range(one, INT64_MAX, 1, 2));
        SHOW(sync_file_range(one, INT64_MAX - 1, 1, 2));
        SHOW(fcntl(one, F_CREATED_QUERY));
        if (one != directory)
            SHOW(fcntl(one, F_NOTIFY, DN_CREATE));
        SHOW(fcntl(one, F_NOTIFY, 0));
    }
    WORKS(mkfifo("fifo", 0666));
    int fifo = open("fifo", O_RDWR);
    SHOW(sync_file_range(fifo, 0, 5, 2));
    SHOW(sync_file_range(fifo, 0, 5, 8));
    SHOW(fcntl(fifo, F_CREATED_QUERY));
    SHOW(fcntl(fifo, F_NOTIFY, 2));
    int made = open("made", O_CREAT | O_RDONLY, 0600), unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    SHOW(fcntl(made, F_CREATED_QUERY));
    SHOW(fcntl(again, F_CREATED_QUERY));
    SHOW(fcntl(dup(made), F_CREATED_QUERY));
    SHOW(fcntl(unnamed, F_CREATED_QUERY));
    int epoll = epoll_create1(0), other = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    int all[] = { fd, directory, path, dirpath, fifo };
    for (int i = 0; i < 5; i++) {
        printf("epoll of descriptor %d\n", i);
        SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, all[i], &event));
        SHOW(epoll_ctl(epoll, EPOLL_CTL_MOD, all[i], &event));
        SHOW(epoll_ctl(epoll, EPOLL_CTL_DEL, all[i], NULL));
        SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, all[i], NULL));
        SHOW(epoll_ctl(all[i], EPOLL_CTL_ADD, fifo, &event));
        SHOW(epoll_ctl(fifo, 77, all[i], &event));
    }
    SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, epoll, &event));
    SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, other, &event));
    struct pollfd polled = { .fd = path, .events = POLLIN | POLLOUT };
    SHOW(poll(&polled, 1, 0));
    printf("  %x\n", polled.revents);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(dirpath, &set);
    SHOW(select(dirpath + 1, &set, NULL, NULL, &(struct timeval){ 0, 0 }));
    SHOW(epoll_ctl(-1, EPOLL_CTL_ADD, path, &event));
    pid_t child = fork();
    if (child == 0) {
        SHOW(fcntl(made, F_CREATED_QUERY));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    SHOW(fcntl(made, F_CREATED_QUERY));
}

static volatile sig_atomic_t notified;
static volatile int notified_of;

static void notice(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    notified++;
    notified_of = info->si_fd;
}

/* Directory notification (fcntl(2), F_NOTIFY): by signal, once or always. */
static void group_dnotify(void)
{
    struct sigaction action = { .sa_sigaction = notice, .sa_flags = SA_SIGINFO };
    sigaction(SIGRTMIN, &action, NULL);
    mkdir("d", 0700);
    int d = open("d", O_RDONLY | O_DIRECTORY);
    SHOW(fcntl(d, F_SETSIG, SIGRTMIN));
    if (SHOW(fcntl(d, F_NOTIFY, DN_CREATE | DN_DELETE | DN_MODIFY | DN_RENAME | DN_ATTRIB | (int)DN_MULTISHOT)) != 0)
        return;
    int fd = open("d/a", O_CREAT | O_RDWR, 0600);
    printf("made: %d of %s\n", notified, notified_of == d ? "d" : "another");
    (void)!write(fd, "x", 1);
    printf("written: %d\n", notified);
    chmod("d/a", 0644);
    printf("mode: %d\n", notified);
    rename("d/a", "d/b");
    printf("renamed: %d\n", notified);
    unlink("d/b");
    printf("removed: %d\n", notified);
    SHOW(fcntl(d, F_NOTIFY, 0));
    close(open("d/c", O_CREAT | O_RDWR, 0600));
    printf("no more: %d\n", notified);
    SHOW(fcntl(d, F_NOTIFY, DN_CREATE));
    close(open("d/e", O_CREAT | O_RDWR, 0600));
    close(open("d/f", O_CREAT | O_RDWR, 0600));
    printf("once: %d\n", notified);
}

static void fdinfo(int fd)
{
    char path[64], line[256], mount[64] = "";
    struct stat found;
    sprintf(path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    if (!file) {
        printf("  %s: %s\n", path, error_name(errno));
        return;
    }
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "pos:", 4) == 0 || strncmp(line, "flags:", 6) == 0)
            printf("  %s", line);
        if (strncmp(line, "mnt_id:", 7) == 0)
            strcpy(mount, line);
        unsigned long long inode;
        if (sscanf(line, "ino: %llu", &inode) == 1 && fstat(fd, &found) == 0)
            printf("  inode %s\n", inode == found.st_ino ? "right" : "wrong");
    }
    fclose(file);
    long id = -1;
    sscanf(mount, "mnt_id: %ld", &id);
    int known = 0;
    file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file))
        known |= strtol(line, NULL, 10) == id;
    printf("  mount %s\n", known ? "in mountinfo" : "unknown");
    if (file)
        fclose(file);
}

static void group_fdinfo(void)
{
    int fd = open("file", O_CREAT | O_RDWR | O_APPEND, 0600);
    (void)!write(fd, "0123456789", 10);
    lseek(fd, 3, SEEK_SET);
    fdinfo(fd);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fdinfo(fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fdinfo(fd);
    int path = open("file", O_PATH), directory = open(".", O_RDONLY | O_DIRECTORY);
    fdinfo(path);
    fdinfo(directory);
    mkfifo("fifo", 0600);
    fdinfo(open("fifo", O_RDWR));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        lseek(fd, 5, SEEK_SET);
        fdinfo(fd);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    fdinfo(fd);
    /* Another process's. */
    int ready[2], go[2];
    (void)!pipe(ready), (void)!pipe(go);
    child = fork();
    if (child == 0) {
        char byte;
        (void)!write(ready[1], "x", 1);
        (void)!read(go[0], &byte, 1);
        _exit(0);
    }
    char byte, name[64], line[100];
    (void)!read(ready[0], &byte, 1);
    sprintf(name, "/proc/%d/fdinfo/%d", child, fd);
    FILE *file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "pos:", 4) == 0 || strncmp(line, "flags:", 6) == 0)
            printf("of the child: %s", line);
    (void)!write(go[1], "x", 1);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *group = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    if (!strcmp(group, "structures")) group_structures();
    else if (!strcmp(group, "refused")) group_refused();
    else if (!strcmp(group, "links")) group_links();
    else if (!strcmp(group, "links_to_proc")) group_links_to_proc();
    else if (!strcmp(group, "sockets")) group_sockets();
    else if (!strcmp(group, "small")) group_small();
    else if (!strcmp(group, "dnotify")) group_dnotify();
    else if (!strcmp(group, "fdinfo")) group_fdinfo();
    else return 2;
    return 0;
}
