// What another user does to a run by descriptors. `unlock`: gives up, and takes, the locks of all
// that it has inherited. `send PATH SOCKET WAY`: shows a file of its own at PATH in a mount
// namespace of its own, and sends its descriptor to who listens at SOCKET; WAY is `file`, `path`
// (opened with O_PATH) or `fifo`. `listen SOCKET`: receives one, writes to it and reads it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(77);
}

static void map(const char *file, const char *text) {
    int fd = open(file, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(file);
    close(fd);
}

static struct sockaddr_un address(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strncpy(at.sun_path, path, sizeof at.sun_path - 1);
    return at;
}

// One byte with a descriptor, given or taken.
static int pass(int socket, int given) {
    char byte = 'x';
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof given)];
    } control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    if (given < 0) {
        if (recvmsg(socket, &message, 0) != 1) fail("recvmsg");
        memcpy(&given, CMSG_DATA(&control.header), sizeof given);
        return given;
    }
    control.header = (struct cmsghdr){CMSG_LEN(sizeof given), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &given, sizeof given);
    if (sendmsg(socket, &message, 0) != 1) fail("sendmsg");
    return given;
}

static void show_at(char *path, const char *way) {
    unsigned user = getuid(), group = getgid();
    umask(0);
    int is_fifo = !strcmp(way, "fifo");
    if (is_fifo ? mkfifo("/dev/shm/of-mine", 0666) : close(open("/dev/shm/of-mine", O_RDWR | O_CREAT, 0666))) fail("of-mine");
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) fail("unshare");
    char text[64];
    map("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1", user);
    map("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1", group);
    map("/proc/self/gid_map", text);
    int tree = syscall(428 /* open_tree */, AT_FDCWD, "/dev/shm/of-mine", 1 /* OPEN_TREE_CLONE */);
    if (tree < 0) fail("open_tree");
    if (mount("own", "/dev/shm", "tmpfs", 0, NULL)) fail("tmpfs");
    for (char *end = path + strlen("/dev/shm/"); (end = strchr(end, '/')); *end++ = '/') {
        *end = 0;
        mkdir(path, 0777);
    }
    close(open(path, O_RDWR | O_CREAT, 0666));
    if (syscall(429 /* move_mount */, tree, "", AT_FDCWD, path, 4 /* MOVE_MOUNT_F_EMPTY_PATH */)) fail("move_mount");
}

int main(int count, char **arguments) {
    const char *does = count > 1 ? arguments[1] : "";
    if (!strcmp(does, "unlock")) {
        for (int fd = 3; fd < 4096; fd++)
            if (fcntl(fd, F_GETFD) >= 0) {
                flock(fd, LOCK_EX | LOCK_NB);
                flock(fd, LOCK_UN);
            }
        return 0;
    }
    int at = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un end = address(arguments[!strcmp(does, "send") ? 3 : 2]);
    if (!strcmp(does, "send")) {
        // Before the file system that it is on is covered.
        if (connect(at, (void *)&end, sizeof end)) fail("connect");
        show_at(arguments[2], arguments[4]);
        int fd = open(arguments[2], !strcmp(arguments[4], "path") ? O_PATH : O_RDWR | O_NONBLOCK);
        if (fd < 0) fail(arguments[2]);
        pass(at, fd);
        char byte;
        return read(at, &byte, 1) < 0;
    }
    if (!strcmp(does, "listen")) {
        umask(0);
        if (bind(at, (void *)&end, sizeof end) || listen(at, 1)) fail("bind");
        int fd = pass(accept(at, NULL, NULL), -1);
        char read_back[64] = "", again[64];
        if (fcntl(fd, F_GETFL) & O_PATH) {
            snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
            int opened = open(again, O_RDWR);
            if (opened >= 0) fd = opened;
        }
        struct stat is;
        if (fstat(fd, &is)) perror("fstat");
        if (pwrite(fd, "written", 7, 0) != 7 && write(fd, "written", 7) != 7) perror("write");
        if (pread(fd, read_back, sizeof read_back - 1, 0) < 0 && read(fd, read_back, sizeof read_back - 1) < 0) perror("read");
        printf("of user %u: %s\n", is.st_uid, read_back);
        return 0;
    }
    return 2;
}
