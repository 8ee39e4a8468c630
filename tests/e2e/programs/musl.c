/* What programs of another C library do with files: made with musl-gcc, and with cc for comparison.
 * Each argument is one thing to do, in the working directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void ended(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) fail("child");
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void list(const char *path) {
    struct dirent **names;
    int count = scandir(path, &names, NULL, by_name);
    if (count < 0) fail(path);
    for (int i = 0; i < count; i++) printf("%s ", names[i]->d_name);
    printf("\n");
}

static void files(void) {
    FILE *file = fopen("a", "w");
    if (!file) fail("a");
    for (int i = 0; i < 5000; i++) fprintf(file, "line %d\n", i);
    if (fclose(file)) fail("fclose");
    if (mkdir("d", 0755) || rename("a", "d/b") || symlink("d/b", "l") || link("d/b", "h")) fail("names");
    file = fopen("l", "r+");
    char line[64];
    for (int i = 0; i < 100; i++) fgets(line, sizeof line, file);
    long at = ftell(file);
    fseek(file, 0, SEEK_END);
    printf("%s%ld %ld\n", line, at, ftell(file));
    fclose(file);
    struct stat found;
    if (stat("h", &found) || truncate("h", 10)) fail("h");
    printf("%lld %d\n", (long long)found.st_size, (int)found.st_nlink);
    int fd = open("h", O_RDWR);
    char *map = mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) fail("mmap");
    printf("%.4s\n", map);
    munmap(map, 10);
    close(fd);
    char real[4096], here[4096];
    if (!realpath("l", real) || !getcwd(here, sizeof here)) fail("realpath");
    printf("%s\n", real + strlen(here));
    printf("%d %d\n", open("none", O_RDONLY), errno == ENOENT);
    list(".");
    if (unlink("h") || unlink("l") || unlink("d/b") || rmdir("d")) fail("unlink");
    list(".");
}

static void forks(void) {
    int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) fail("shared");
    pid_t child = fork();
    if (child == 0) {
        if (write(fd, "child ", 6) != 6) _exit(1);
        _exit(0);
    }
    ended(child);
    write(fd, "parent\n", 7);
    /* vfork, as musl's posix_spawn does it, and a program of glibc that inherits the description.
     * */
    child = vfork();
    if (child == 0) {
        dup2(fd, 1);
        execl("/bin/echo", "echo", "exec", NULL);
        _exit(1);
    }
    ended(child);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    char *words[] = {"sh", "-c", "echo spawned; cat shared >&2; pwd >/dev/null", NULL};
    fflush(stdout);
    if (posix_spawnp(&child, "sh", &actions, NULL, words, environ)) fail("spawn");
    ended(child);
    fflush(stdout);
    if (system("wc -c < shared; ls shared")) fail("system");
    FILE *pipe = popen("cat shared", "r");
    char line[64];
    while (fgets(line, sizeof line, pipe)) fputs(line, stdout);
    if (pclose(pipe)) fail("pclose");
    lseek(fd, 0, SEEK_SET);
    printf("%zd\n", read(fd, line, 5));
    unlink("shared");
}

static void *work(void *number) {
    long me = (long)number;
    char name[32], text[32], back[32] = "";
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%ld", me);
        int length = snprintf(text, sizeof text, "%ld %d", me, i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, text, length) != length || pread(fd, back, sizeof back, 0) != length || memcmp(text, back, length)) return "wrong";
        close(fd);
        if (unlink(name)) return "unlink";
    }
    return NULL;
}

static void threads(void) {
    /* musl's own size (128 KiB), and the smallest there is. */
    for (int small = 0; small < 2; small++) {
        pthread_t all[8];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (small) pthread_attr_setstacksize(&attributes, 16384);
        for (long i = 0; i < 8; i++)
            if ((errno = pthread_create(&all[i], &attributes, work, (void *)i))) fail("pthread_create");
        for (int i = 0; i < 8; i++) {
            void *result = NULL;
            pthread_join(all[i], &result);
            if (result) fail(result);
        }
    }
    list(".");
}

static volatile sig_atomic_t caught;
static void handler(int number) { caught = number; }

static void signals(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    int ends[2];
    pipe(ends);
    raise(SIGALRM);
    printf("%d\n", caught == SIGALRM);
    struct sigaction now;
    sigaction(SIGALRM, NULL, &now);
    printf("%d\n", now.sa_handler == handler);
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < count; i++) {
        printf("== %s\n", words[i]);
        if (!strcmp(words[i], "files")) files();
        if (!strcmp(words[i], "forks")) forks();
        if (!strcmp(words[i], "threads")) threads();
        if (!strcmp(words[i], "signals")) signals();
        if (!strcmp(words[i], "environment"))
            for (char **entry = environ; *entry; entry++) puts(*entry);
        if (!strcmp(words[i], "again")) {
            fflush(stdout);
            /* Itself by way of a program of glibc: each takes the other's way in. */
            char command[8192];
            snprintf(command, sizeof command, "cat kept; exec %s last", words[0]);
            execl("/bin/bash", "bash", "-c", command, NULL);
        }
        if (!strcmp(words[i], "last")) {
            FILE *file = fopen("kept", "r");
            char line[64];
            printf("%s", file && fgets(line, sizeof line, file) ? line : "missing\n");
        }
    }
    return 0;
}
