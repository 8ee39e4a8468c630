/* Writers that share files and descriptions: nothing is lost, torn or written twice. Usage: sharing
 * GROUP, in an empty directory. Counts are bounded, nothing depends on time; what is printed is the
 * same whatever the order. */
#include "probe.h"
#include <pthread.h>

enum { PROCESSES = 3, THREADS = 2, RECORDS = 150 };

static int shared_fd = -1;
static int vectors, own_description, flags;

/* A record says who wrote it and how long it is, and ends with a newline. */
static int record(char *into, int process, int thread, int number)
{
    int length = 24 + (process * 31 + thread * 17 + number * 7) % 60;
    memset(into, 'a' + (process * THREADS + thread) % 26, length);
    int head = sprintf(into, "%d %d %d %d ", process, thread, number, length);
    into[head] = '.';
    into[length - 1] = '\n';
    return length;
}

static void *writer(void *argument)
{
    int process = (int)(intptr_t)argument / THREADS, thread = (int)(intptr_t)argument % THREADS;
    int fd = own_description ? open("f", O_WRONLY | flags) : shared_fd;
    if (fd < 0)
        die("f");
    for (int number = 0; number < RECORDS; number++) {
        char text[128];
        int length = record(text, process, thread, number);
        struct iovec v[3] = { { text, 10 }, { text + 10, 1 }, { text + 11, length - 11 } };
        long wrote = vectors ? writev(fd, v, 3) : write(fd, text, length);
        if (wrote != length)
            die("write");
    }
    return NULL;
}

/* Each record exactly once, whole, and nothing else. */
static void check(void)
{
    static char seen[PROCESSES][THREADS][RECORDS];
    memset(seen, 0, sizeof seen);
    FILE *file = fopen("f", "r");
    char line[256], wanted[128];
    long total = 0, bad = 0;
    while (file && fgets(line, sizeof line, file)) {
        int process, thread, number, length;
        if (sscanf(line, "%d %d %d %d ", &process, &thread, &number, &length) != 4 || process >= PROCESSES || process < 0 || thread < 0 ||
            thread >= THREADS || number < 0 || number >= RECORDS || record(wanted, process, thread, number) != (int)strlen(line) ||
            memcmp(wanted, line, strlen(line)) || seen[process][thread][number]++)
            bad++;
        total++;
    }
    fclose(file);
    printf("%ld records, %ld wrong\n", total, bad);
    fflush(stdout);
}

static void all_write(void)
{
    fflush(stdout);
    for (int process = 0; process < PROCESSES; process++)
        if (fork() == 0) {
            pthread_t other[THREADS];
            for (intptr_t thread = 1; thread < THREADS; thread++)
                if (pthread_create(&other[thread], NULL, writer, (void *)(process * THREADS + thread)))
                    die("thread");
            writer((void *)(intptr_t)(process * THREADS));
            for (int thread = 1; thread < THREADS; thread++)
                pthread_join(other[thread], NULL);
            _exit(0);
        }
    for (int process = 0; process < PROCESSES; process++) {
        int status;
        wait(&status);
        if (status)
            printf("child %x\n", status);
    }
    check();
}

static void group_offset(void)
{
    for (vectors = 0; vectors < 2; vectors++) {
        shared_fd = open("f", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        all_write();
        printf("offset at the end %d\n", lseek(shared_fd, 0, SEEK_CUR) == lseek(shared_fd, 0, SEEK_END));
        close(shared_fd);
    }
}

static void group_append(void)
{
    own_description = 1, flags = O_APPEND;
    for (vectors = 0; vectors < 2; vectors++) {
        close(open("f", O_WRONLY | O_CREAT | O_TRUNC, 0644));
        all_write();
    }
}

/* Readers of one description divide the file among them: each byte is read once (POSIX, read()). */
static void group_readers(void)
{
    enum { LENGTH = 30000, STEP = 7 };
    char byte = 'x';
    int fd = open("f", O_RDWR | O_CREAT, 0644), counts[2];
    for (int i = 0; i < LENGTH; i++)
        if (pwrite(fd, &byte, 1, i) != 1)
            die("write");
    pipe(counts);
    fflush(stdout);
    for (int process = 0; process < PROCESSES; process++)
        if (fork() == 0) {
            char some[STEP];
            long mine = 0, n;
            while ((n = read(fd, some, STEP)) > 0)
                mine += n;
            write(counts[1], &mine, sizeof mine);
            _exit(0);
        }
    long sum = 0, one;
    for (int process = 0; process < PROCESSES; process++) {
        read(counts[0], &one, sizeof one);
        sum += one;
        wait(NULL);
    }
    printf("read %ld of %d, offset %ld\n", sum, LENGTH, (long)lseek(fd, 0, SEEK_CUR));
}

/* One description, many ways to it: children, a dup, exec'd programs, vfork. */
static void group_heirs(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0644), twin = dup(fd);
    write(fd, "one ", 4);
    fflush(stdout);
    if (fork() == 0) {
        write(twin, "two ", 4);
        lseek(fd, 1, SEEK_CUR);
        _exit(0);
    }
    wait(NULL);
    write(twin, "three ", 6);
    char command[64];
    sprintf(command, "echo four >&%d; (echo five; echo six) >&%d", fd, twin);
    SHOW(system(command));
    if (vfork() == 0) {
        write(fd, "seven ", 6);
        close(twin);
        if (vfork() == 0) {
            write(fd, "eight ", 6);
            if (vfork() == 0) {
                write(fd, "nine ", 5);
                dup2(fd, 77);
                write(77, "ten ", 4);
                _exit(0);
            }
            write(fd, "eleven ", 7);
            _exit(0);
        }
        write(fd, "twelve ", 7);
        _exit(0);
    }
    wait(NULL);
    SHOW(write(twin, "thirteen", 8));
    SHOW(write(77, "none", 4));
    printf("offset %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
    SHOW(lseek(fd, 0, SEEK_SET));
    sprintf(command, "head -c 4 <&%d; cat <&%d", fd, fd);
    SHOW(system(command));
    puts("");
}

/* Who is killed in the midst of a write keeps nobody from writing on. */
static void group_killed(void)
{
    enum { ROUNDS = 60 };
    int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644), ready[2];
    char line[512], byte;
    memset(line, 'k', sizeof line);
    pipe(ready);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0)
            for (long i = 0;; i++) {
                lseek(fd, 0, SEEK_SET);
                if (write(fd, line, sizeof line) != sizeof line || (i == 20 && write(ready[1], "", 1) != 1))
                    _exit(1);
            }
        if (read(ready[0], &byte, 1) != 1)
            die("ready");
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        if (lseek(fd, 0, SEEK_SET) != 0 || write(fd, line, sizeof line) != sizeof line)
            die("write");
    }
    printf("%d rounds, size %ld\n", ROUNDS, (long)lseek(fd, 0, SEEK_END));
}

static void *changer(void *argument)
{
    static _Thread_local char block[8192];
    int fd = open("f", O_WRONLY);
    for (int i = 0; i < 300; i++) {
        memset(block, 'A' + (int)(intptr_t)argument, sizeof block);
        if (pwrite(fd, block, sizeof block, 0) != sizeof block)
            die("write");
    }
    return NULL;
}

static void *watcher(void *argument)
{
    static _Thread_local char block[8192];
    int fd = open("f", O_RDONLY);
    long torn = 0;
    for (int i = 0; i < 300; i++) {
        if (pread(fd, block, sizeof block, 0) != sizeof block)
            die("read");
        for (size_t at = 1; at < sizeof block; at++)
            torn += block[at] != block[0];
    }
    *(long *)argument += torn;
    return NULL;
}

/* DEFUSE 4.6: no read sees half of a write. Two processes, in each two that write and two that
 * read. */
static void group_torn(void)
{
    char block[8192] = { 0 };
    memset(block, 'A', sizeof block);
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    write(fd, block, sizeof block);
    fflush(stdout);
    for (int process = 0; process < 2; process++)
        if (fork() == 0) {
            pthread_t threads[4];
            static long torn[2];
            for (intptr_t i = 0; i < 4; i++)
                if (pthread_create(&threads[i], NULL, i < 2 ? changer : watcher, i < 2 ? (void *)(process * 2 + i) : (void *)&torn[i - 2]))
                    die("thread");
            for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
            _exit(torn[0] + torn[1] != 0);
        }
    int torn = 0, status;
    for (int process = 0; process < 2; process++) {
        wait(&status);
        torn += status != 0;
    }
    printf("processes that saw half of a write: %d\n", torn);
}

/* What a program says whose words name something else than `inherited` does. */
enum { NOT_INHERITED = -1 };

/* What a statically linked program, which is not intercepted, does with what it inherits: "say
 * WORD" writes, "copy" reads all of its standard input and writes that, "sizes" says what it sees
 * of both. */
static int inherited(int argc, char **argv)
{
    char text[4096];
    if (argc == 3 && !strcmp(argv[1], "say"))
        return dprintf(1, "%s\n", argv[2]) < 0;
    if (argc == 2 && !strcmp(argv[1], "copy")) {
        long n;
        while ((n = read(0, text, sizeof text)) > 0)
            if (write(1, text, n) != n)
                return 1;
        return n < 0;
    }
    return NOT_INHERITED;
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        { "offset", group_offset }, { "append", group_append }, { "readers", group_readers }, { "heirs", group_heirs }, { "killed", group_killed },
        { "torn", group_torn },
    };
    int result = inherited(argc, argv);
    return result == NOT_INHERITED ? RUN_GROUP(groups, argv[1]) : result;
}
