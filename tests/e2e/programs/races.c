/* Several processes of two threads each, over the same few names at once: every call may only end
 * as the kernel's own file systems let it end. What removes, replaces or moves a name between two
 * steps of a call must not show in it. Usage: races SCRATCH COUNT, with an empty directory SCRATCH
 * and so many calls for each thread and kind of race. */
#include "probe.h"
#include <pthread.h>
#include <sys/file.h>

enum { PROCESSES = 3, THREADS = 2, LINES = 8, LENGTH = 64 };

static long count;
static _Atomic long *wrong;
static _Thread_local unsigned long state;
static _Thread_local int self;

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 11) % n;
}

/* Counts an end that no local file system has: an error that is not among the `n` allowed ones. */
static long check(const char *race, const char *what, long result, int n, const int *allowed)
{
    int error = errno;
    if (result != -1)
        return result;
    for (int i = 0; i < n; i++)
        if (error == allowed[i])
            return result;
    if ((*wrong)++ < LINES) {
        printf("%s: %s = %s\n", race, what, error_name(error));
        fflush(stdout);
    }
    return result;
}

#define MAY(call, ...)                                                                    \
    (errno = 0, check(__func__, #call, (long)(call), sizeof((int[]){ 0, __VA_ARGS__ }) / sizeof(int), \
                      (int[]){ 0, __VA_ARGS__ }))
#define MUST(call) (errno = 0, check(__func__, #call, (long)(call), 0, NULL))
/* A fact about bytes or attributes. */
#define HOLDS(fact) (errno = ENOTRECOVERABLE, check(__func__, #fact, (fact) ? 0 : -1, 0, NULL))

static void done(long fd)
{
    if (fd >= 0)
        MUST(close(fd));
}

/* What is open stays what it is, whatever becomes of the name. */
static void use(long fd)
{
    struct stat st;
    char bytes[8];
    if (fd < 0)
        return;
    MUST(pwrite(fd, "written", 8, below(4) * 8));
    MUST(pread(fd, bytes, 8, 0));
    MUST(fstat(fd, &st));
    MAY(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    struct flock whole = { .l_type = F_WRLCK };
    MAY(fcntl(fd, F_SETLK, &whole), EAGAIN, EACCES);
    if (below(4) == 0)
        MUST(ftruncate(fd, 16));
    MUST(close(fd));
}

static void files(void)
{
    static const char *const names[] = { "files/a", "files/b", "files/c" };
    const char *name = names[below(3)], *other = names[below(3)];
    struct stat st;
    struct timespec times[2] = { { 1, 0 }, { 2, 0 } };
    char target[8];
    switch (below(18)) {
    case 0:
    case 1:
    case 2: use(MUST(open(name, O_RDWR | O_CREAT, 0600))); break;
    case 3: use(MUST(open(name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600))); break;
    case 4: use(MAY(open(name, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST)); break;
    case 5: use(MAY(open(name, O_RDWR), ENOENT)); break;
    case 6: done(MAY(open(name, O_PATH), ENOENT)); break;
    case 7:
    case 8:
    case 9: MAY(unlink(name), ENOENT); break;
    case 10: MAY(rename(name, other), ENOENT); break;
    case 11: MAY(renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_NOREPLACE), ENOENT, EEXIST); break;
    case 12: MAY(renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE), ENOENT); break;
    case 13: MAY(link(name, other), ENOENT, EEXIST); break;
    case 14: MAY(stat(name, &st), ENOENT); break;
    case 15: MAY(access(name, R_OK | W_OK), ENOENT); break;
    case 16:
        MAY(truncate(name, 8), ENOENT);
        MAY(chmod(name, 0640), ENOENT);
        MAY(utimensat(AT_FDCWD, name, times, 0), ENOENT);
        break;
    case 17:
        MAY(readlink(name, target, sizeof target), ENOENT, EINVAL);
        break;
    }
}

/* Names made and removed at once, of every kind of node: to make one never fails but by EEXIST. */
static void kinds(void)
{
    static const char *const names[] = { "kinds/a", "kinds/b" };
    const char *name = names[below(2)];
    struct stat st;
    switch (below(9)) {
    case 0: MAY(mkdir(name, 0700), EEXIST); break;
    case 1: MAY(symlink("nowhere", name), EEXIST); break;
    case 2: MAY(mknod(name, S_IFREG | 0600, 0), EEXIST); break;
    case 3: MAY(mkfifo(name, 0600), EEXIST); break;
    case 4: MAY(rmdir(name), ENOENT, ENOTDIR); break;
    case 5: MAY(unlink(name), ENOENT, EISDIR); break;
    case 6: MAY(lstat(name, &st), ENOENT); break;
    case 7: done(MAY(open(name, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST)); break;
    case 8: done(MAY(open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600), EISDIR)); break;
    }
}

static void make(const char *name, char byte)
{
    char bytes[LENGTH];
    memset(bytes, byte, LENGTH);
    long fd = MUST(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    MUST(write(fd, bytes, LENGTH));
    done(fd);
}

static void whole(long fd)
{
    char bytes[LENGTH + 1] = "";
    if (fd < 0)
        return;
    HOLDS(read(fd, bytes, sizeof bytes) == LENGTH);
    HOLDS(bytes[0] >= 'A' && memcmp(bytes, bytes + 1, LENGTH - 1) == 0);
    MUST(close(fd));
}

/* How configuration is replaced: the name is always there, and always whole. */
static void replaced(void)
{
    char temporary[64];
    struct stat st;
    snprintf(temporary, sizeof temporary, "replaced/new%d", self);
    switch (below(9)) {
    case 0:
    case 1:
    case 2:
        make(temporary, 'A' + self);
        MUST(rename(temporary, "replaced/config"));
        break;
    case 3: whole(MUST(open("replaced/config", O_RDONLY))); break;
    case 4: whole(MUST(open("replaced/config", O_RDWR | O_CREAT, 0600))); break;
    case 5: done(MAY(open("replaced/config", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST)); break;
    case 6:
        MUST(stat("replaced/config", &st));
        HOLDS(st.st_size == LENGTH);
        break;
    case 7: MUST(access("replaced/config", R_OK | W_OK)); break;
    case 8:
        MUST(chmod("replaced/config", 0600));
        MUST(truncate("replaced/config", LENGTH));
        break;
    }
}

/* `ln -sfn`: what is behind the link is always there. */
static void links(void)
{
    char temporary[64], target[8];
    struct stat st;
    snprintf(temporary, sizeof temporary, "links/new%d", self);
    switch (below(12)) {
    case 0:
    case 1:
        MUST(symlink(below(2) ? "v0" : "v1", temporary));
        MUST(rename(temporary, "links/current"));
        break;
    case 2:
        MUST(symlink(below(2) ? "v0/data" : "current/data", temporary));
        MUST(rename(temporary, "links/data"));
        break;
    case 3: whole(MUST(open("links/current/data", O_RDONLY))); break;
    case 4: whole(MUST(open("links/data", O_RDWR | O_CREAT, 0600))); break;
    case 5: MUST(stat("links/current/data", &st)); break;
    case 6:
        MUST(lstat("links/current", &st));
        HOLDS(S_ISLNK(st.st_mode));
        HOLDS(readlink("links/current", target, sizeof target) == 2);
        break;
    case 7: done(MUST(open("links/current", O_RDONLY | O_DIRECTORY))); break;
    case 8: MAY(symlink("anchor", "links/late"), EEXIST); break;
    case 9: MAY(unlink("links/late"), ENOENT); break;
    case 10: done(MUST(open("links/late", O_RDWR | O_CREAT, 0600))); break;
    case 11: done(MAY(open("links/late", O_RDWR | O_CREAT | O_NOFOLLOW, 0600), ELOOP)); break;
    }
}

static void listed(long fd)
{
    if (fd < 0)
        return;
    char bytes[1024];
    while (MAY(syscall(SYS_getdents64, fd, bytes, sizeof bytes), ENOENT) > 0)
        ;
    done(fd);
}

static void directories(void)
{
    char name[64], other[64], in[80], in_other[80];
    struct stat st;
    snprintf(name, sizeof name, "directories/%d", below(3));
    snprintf(other, sizeof other, "directories/%d", below(3));
    snprintf(in, sizeof in, "%s/x", name);
    snprintf(in_other, sizeof in_other, "%s/y", other);
    switch (below(12)) {
    case 0:
    case 1:
    case 2: MAY(mkdir(name, 0700), EEXIST); break;
    case 3:
        MAY(unlink(in), ENOENT);
        MAY(rmdir(name), ENOENT, ENOTEMPTY);
        break;
    case 4:
        MAY(unlink(in_other), ENOENT);
        MAY(rmdir(other), ENOENT, ENOTEMPTY);
        break;
    case 5: listed(MAY(open(name, O_RDONLY | O_DIRECTORY), ENOENT)); break;
    case 6: use(MAY(open(in, O_RDWR | O_CREAT, 0600), ENOENT)); break;
    case 7: use(MAY(open(in, O_RDWR), ENOENT)); break;
    case 8: MAY(rename(name, other), ENOENT, ENOTEMPTY); break;
    case 9: MAY(rename(in, in_other), ENOENT); break;
    case 10: MAY(stat(in_other, &st), ENOENT); break;
    case 11: MAY(link(in, in_other), ENOENT, EEXIST); break;
    }
}

/* A directory that is always somewhere: who has it open, or a file in it, never notices. */
static void moved(void)
{
    static const char *const names[] = { "moved/one", "moved/two" };
    const char *name = names[below(2)];
    struct stat st;
    char in[32];
    snprintf(in, sizeof in, "%s/file", name);
    switch (below(4)) {
    case 0: MAY(rename("moved/one", "moved/two"), ENOENT); break;
    case 1: MAY(rename("moved/two", "moved/one"), ENOENT); break;
    case 2: whole(MAY(open(in, O_RDWR | O_CREAT, 0600), ENOENT)); break;
    case 3: {
        long fd = MAY(open(name, O_RDONLY | O_DIRECTORY), ENOENT);
        if (fd < 0)
            break;
        for (int i = 0; i < 4; i++) {
            whole(MUST(openat(fd, "file", O_RDONLY)));
            whole(MUST(openat(fd, "../../moved/./anchor", O_RDWR | O_CREAT, 0600)));
            MUST(fstatat(fd, "..", &st, 0));
        }
        listed(fd);
        break;
    }
    }
}

static void (*const races[])(void) = { files, kinds, replaced, links, directories, moved };

static void *run(void *number)
{
    self = (int)(intptr_t)number;
    for (unsigned race = 0; race < sizeof races / sizeof *races; race++) {
        state = 0x9e3779b97f4a7c15u * (unsigned long)(self + 1) + race;
        for (long i = 0; i < count; i++)
            races[race]();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3 || chdir(argv[1]))
        die("races SCRATCH COUNT");
    count = atol(argv[2]);
    wrong = mmap(NULL, sizeof *wrong, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static const char *const made[] = { "files", "kinds", "replaced", "links", "links/v0", "links/v1",
                                        "directories", "moved", "moved/one" };
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++)
        MUST(mkdir(made[i], 0700));
    make("replaced/config", 'Z');
    make("links/v0/data", 'A');
    make("links/v1/data", 'B');
    make("moved/one/file", 'C');
    make("moved/anchor", 'D');
    MUST(symlink("v0", "links/current"));
    MUST(symlink("current/data", "links/data"));
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child > 0)
            continue;
        pthread_t threads[THREADS];
        for (int j = 0; j < THREADS; j++)
            if (pthread_create(&threads[j], NULL, run, (void *)(intptr_t)(i * THREADS + j)))
                die("pthread_create");
        for (int j = 0; j < THREADS; j++)
            pthread_join(threads[j], NULL);
        _exit(0);
    }
    int status, ended = 0;
    while (wait(&status) > 0)
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%d processes ended well, %ld wrong answers\n", ended, (long)*wrong);
    return *wrong != 0 || ended != PROCESSES;
}
