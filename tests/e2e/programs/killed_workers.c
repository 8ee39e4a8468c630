// Four processes work in one directory and are killed with SIGKILL in the middle of it, again and
// again; what is left must be a file system.
//
// usage: killed_workers DIRECTORY ROUNDS SEED       prints every rule that is broken, and a summary
//        killed_workers measure DIRECTORY           prints free blocks and inodes
//
// A round ends when its workers together have done a number of operations drawn from SEED: the kill
// then meets each of them wherever it is. The survivors of a kill go on to the end of the round.
// Afterwards every name can be looked at, every byte read, and links are as many as there are
// names.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { WORKERS = 4, NAMES = 12, INODES = 4096, KEPT = 80 };

static uint64_t state;
static int broken;

static unsigned draw(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 11) % below);
}

static void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (broken++ < 20) {
        vprintf(format, arguments);
        putchar('\n');
    }
    va_end(arguments);
}

struct shared {
    _Atomic uint64_t done;
    _Atomic int stop;
};

// A name that the others use, too.
static void name(char *into) {
    if (draw(3))
        sprintf(into, "n%u", draw(NAMES));
    else
        sprintf(into, "d%u/n%u", draw(3), draw(NAMES));
}

// What may be answered by a directory in which others work.
static int expected(int error) {
    switch (error) {
    case ENOENT: case EEXIST: case ENOTDIR: case EISDIR: case ENOTEMPTY: case EINVAL: case ELOOP: case ENODATA: case EPERM: case ENXIO: case EMLINK:
        return 1;
    }
    return 0;
}

static void one_operation(void) {
    static char bytes[50000];
    char one[64], two[64];
    name(one);
    name(two);
    int which = (int)draw(16), result = 0, fd;
    switch (which) {
    case 0: case 1: case 2: case 3:
        fd = open(one, O_RDWR | O_CREAT | O_NOFOLLOW | (draw(2) ? O_APPEND : 0) | (draw(3) ? 0 : O_TRUNC), 0644);
        result = fd < 0 ? -1 : 0;
        if (fd >= 0) {
            memset(bytes, 'a' + (int)draw(26), sizeof bytes);
            if (write(fd, bytes, draw(sizeof bytes) + 1) < 0) result = -1;
            if (result == 0 && draw(2) && ftruncate(fd, draw(60000)) < 0) result = -1;
            // Sometimes it dies with a file open that has no name any more.
            if (draw(2)) unlink(one);
            if (result == 0 && pwrite(fd, bytes, draw(9000) + 1, draw(200000)) < 0) result = -1;
            close(fd);
        }
        break;
    case 4: case 5: result = rename(one, two); break;
    case 6: result = renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE); break;
    case 7: case 8: result = unlink(one); break;
    case 9: result = link(one, two); break;
    case 10: result = symlink("somewhere", one); break;
    case 11: result = mkdir(one, 0755); break;
    case 12: result = rmdir(one); break;
    case 13: result = setxattr(one, "user.x", bytes, draw(3000), 0); break;
    case 14: result = truncate(one, draw(100000)); break;
    case 15:
        fd = open(".", O_TMPFILE | O_RDWR, 0600);
        result = fd < 0 ? -1 : 0;
        if (fd >= 0) {
            if (write(fd, bytes, draw(sizeof bytes) + 1) < 0) result = -1;
            close(fd);
        }
        break;
    }
    if (result < 0 && !expected(errno)) {
        fprintf(stderr, "operation %d: %s\n", which, strerror(errno));
        _exit(3);
    }
}

static void work(struct shared *shared, uint64_t seed) {
    state = seed | 1;
    while (!shared->stop) {
        one_operation();
        shared->done++;
    }
    _exit(0);
}

// The inodes met, how many names of each were met, and how many it says it has.
static struct { uint64_t inode; unsigned names, links; } met[INODES];
static unsigned met_count;

static void meet(const struct stat *found) {
    for (unsigned i = 0; i < met_count; i++)
        if (met[i].inode == found->st_ino) {
            met[i].names++;
            return;
        }
    if (met_count < INODES) {
        met[met_count].inode = found->st_ino;
        met[met_count].names = 1;
        met[met_count++].links = (unsigned)found->st_nlink;
    }
}

static void look(const char *path, int remove_all) {
    static char bytes[1 << 16];
    DIR *directory = opendir(path);
    if (!directory) {
        wrong("%s: opendir: %s", path, strerror(errno));
        return;
    }
    unsigned directories = 0;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char below[4096];
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        struct stat found;
        if (lstat(below, &found)) {
            wrong("%s: in the listing, but: %s", below, strerror(errno));
            continue;
        }
        if (S_ISDIR(found.st_mode)) {
            directories++;
            look(below, remove_all);
        } else {
            meet(&found);
        }
        if (S_ISREG(found.st_mode)) {
            int fd = open(below, O_RDONLY);
            ssize_t count, total = 0;
            while ((count = read(fd, bytes, sizeof bytes)) > 0) total += count;
            if (fd < 0 || count < 0 || total != found.st_size) wrong("%s: %zd bytes of %zd: %s", below, total, (ssize_t)found.st_size, strerror(errno));
            close(fd);
        }
        if (remove_all && (S_ISDIR(found.st_mode) ? rmdir(below) : unlink(below))) wrong("%s: cannot be removed: %s", below, strerror(errno));
    }
    struct stat found;
    if (!remove_all && (stat(path, &found) || found.st_nlink != 2 + directories)) wrong("%s: %u links, %u directories in it", path, (unsigned)found.st_nlink, directories);
    closedir(directory);
}

struct space {
    long long blocks, inodes;
};

static int measure(const char *directory) {
    struct statfs found;
    if (statfs(directory, &found)) return 1;
    printf("%lld %lld\n", (long long)found.f_bfree, (long long)found.f_ffree);
    return 0;
}

// What a process that begins anew sees: it gives back what the dead have kept.
static struct space measured(const char *self, const char *directory) {
    char command[8192];
    struct space space = {-1, -1};
    snprintf(command, sizeof command, "'%s' measure '%s'", self, directory);
    FILE *answer = popen(command, "r");
    if (!answer || fscanf(answer, "%lld %lld", &space.blocks, &space.inodes) != 2) wrong("the free space is not known");
    if (answer) pclose(answer);
    return space;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "measure")) return measure(words[2]);
    if (count != 4 || chdir(words[1])) return 2;
    unsigned rounds = (unsigned)atoi(words[2]), killed = 0;
    uint64_t seed = strtoull(words[3], 0, 0) * 2654435761u + 1;
    struct shared *shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct space before = measured(words[0], words[1]);
    for (unsigned round = 0; round < rounds; round++) {
        pid_t workers[WORKERS];
        for (int i = 0; i < 3; i++) {
            char directory[16];
            sprintf(directory, "d%d", i);
            mkdir(directory, 0755);
        }
        shared->done = 0;
        shared->stop = 0;
        fflush(stdout);
        for (unsigned i = 0; i < WORKERS; i++) {
            workers[i] = fork();
            if (workers[i] == 0) work(shared, seed + round * 7919u + i * 104729u);
        }
        state = (seed + round * 31u) | 1;
        for (unsigned i = 0; i < 8; i++) draw(2);
        uint64_t first = 20 + draw(150), last = first + draw(80);
        unsigned victims = 1 + draw(WORKERS);
        while (shared->done < first) sched_yield();
        for (unsigned i = 0; i < victims; i++) kill(workers[i], SIGKILL);
        while (victims < WORKERS && shared->done < last) sched_yield();
        shared->stop = 1;
        for (unsigned i = 0; i < WORKERS; i++) {
            int status;
            waitpid(workers[i], &status, 0);
            if (i < victims && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) killed++;
            else if (!WIFEXITED(status) || WEXITSTATUS(status)) wrong("round %u: worker %u: status %#x", round, i, (unsigned)status);
        }
        met_count = 0;
        look(".", round % 20 == 19 || round + 1 == rounds);
        // What killed workers had open without a name is given back when somebody asks for the free
        // space: else hundreds of such inodes gather, the more the busier the machine is, and their
        // blocks, which stay with the file system, are more than KEPT.
        struct statfs now;
        if (round % 20 == 19) statfs(".", &now);
        for (unsigned i = 0; i < met_count; i++)
            if (met[i].names != met[i].links && !(round % 20 == 19 || round + 1 == rounds)) wrong("round %u: inode %llu: %u names, %u links", round, (unsigned long long)met[i].inode, met[i].names, met[i].links);
    }
    struct space after = measured(words[0], words[1]);
    // Blocks of inodes and of the directory itself stay with the file system: some dozens, however
    // long this goes on. One orphan has as many.
    if (before.inodes != after.inodes || before.blocks - after.blocks > KEPT)
        wrong("%lld of %lld blocks and %lld of %lld inodes are free again", after.blocks, before.blocks, after.inodes, before.inodes);
    printf("%u rounds, %s, %d wrong\n", rounds, killed >= rounds ? "killed in each" : "not killed", broken);
    return broken != 0;
}
