// Calls that do not wait, while signals come without SA_RESTART: never_waits DIRECTORY
// None of them ends with EINTR.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int signals;

static void handler(int signal) {
    (void)signal;
    signals++;
}

static int wrong;
static void look(const char *what, long answer) {
    if (answer >= 0 || wrong++ > 5) return;
    printf("%s: %s\n", what, strerrorname_np(errno));
}

int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1])) return 2;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 150}, {0, 150}};
    setitimer(ITIMER_REAL, &often, 0);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
    for (int round = 0; round < 5000; round++) {
        char text[4] = "abc";
        struct stat found;
        int fd = open("never", O_RDWR | O_CREAT, 0644);
        look("open", fd);
        look("write", write(fd, text, 3));
        look("fstat", fstat(fd, &found));
        look("pread", pread(fd, text, 3, 0));
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        look("lock", fcntl(fd, F_SETLKW, &lock));
        look("send", send(ends[0], text, 3, 0));
        look("recv", recv(ends[1], text, 3, 0));
        look("close", close(fd));
        look("stat", stat("never", &found));
        look("rename", rename("never", "ever"));
        look("unlink", unlink("ever"));
        // What is refused has not waited either.
        look("open of a directory", open("/etc", O_WRONLY) < 0 && errno == EISDIR ? 0 : -1);
        look("open of what is below a file", open("/etc/passwd/never", O_RDONLY) < 0 && errno == ENOTDIR ? 0 : -1);
    }
    struct itimerval none = {0};
    setitimer(ITIMER_REAL, &none, 0);
    printf("wrong: %d, signals came: %d\n", wrong, signals > 50);
    return 0;
}
