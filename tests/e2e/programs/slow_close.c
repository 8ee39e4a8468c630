// A dup2 that closes a socket with unsent data waits for its peer; other threads go on with their
// descriptors meanwhile: slow_close DIRECTORY
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FREE = 200, PATIENCE = 50, LINGER = 2 * PATIENCE };

static int source, lingering;
static atomic_int thread_id;

static void must(int good, const char *what) {
    if (!good) err(2, "%s", what);
}

static void *closes(void *unused) {
    (void)unused;
    thread_id = (int)syscall(SYS_gettid);
    must(dup2(source, lingering) == lingering, "dup2 over the socket");
    return NULL;
}

// Whether the thread is in dup2(2).
static int waits(void) {
    char path[64], line[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread_id);
    int fd = open(path, O_RDONLY);
    must(fd >= 0 && read(fd, line, sizeof line - 1) > 0, path);
    must(close(fd) == 0, "close");
    return strtol(line, NULL, 10) == SYS_dup2;
}

int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1])) err(2, "slow_close DIRECTORY");
    alarm(PATIENCE);
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    source = ends[0];

    // The peer reads nothing, so that most of what is sent stays here.
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    must(bind(listening, (struct sockaddr *)&address, length) == 0 && listen(listening, 1) == 0, "listen");
    must(getsockname(listening, (struct sockaddr *)&address, &length) == 0, "getsockname");
    lingering = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(lingering, (struct sockaddr *)&address, length) == 0, "connect");
    int peer = accept(listening, NULL, NULL);
    must(peer >= 0, "accept");
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER};
    must(setsockopt(lingering, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    static char bytes[1 << 16];
    while (send(lingering, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}

    pthread_t thread;
    must(pthread_create(&thread, NULL, closes, NULL) == 0, "a thread");
    while (!thread_id || !waits()) usleep(1000);

    int ours = open("file", O_RDWR | O_CREAT, 0644), other = open("other", O_RDWR | O_CREAT, 0644);
    must(ours >= 0 && other >= 0, "open");
    must(dup2(source, FREE) == FREE, "dup2 to a free number");
    must(dup2(source, FREE) == FREE, "dup2 over a pipe");
    must(dup2(ours, FREE + 1) == FREE + 1, "dup2 of a file");
    must(dup2(ours, other) == other, "dup2 over a file");
    must(write(other, "right", 5) == 5 && pread(FREE + 1, bytes, 8, 0) == 5 && !memcmp(bytes, "right", 5), "what was written");
    must(close(ours) == 0 && close(other) == 0 && close(FREE) == 0, "close");
    must(waits(), "the socket is still being closed");
    puts("nobody waited");

    while (read(peer, bytes, sizeof bytes) > 0) {}
    must(pthread_join(thread, NULL) == 0, "join");
    return 0;
}
