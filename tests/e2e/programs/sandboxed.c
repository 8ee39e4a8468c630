/* sandboxed IMAGE PID ROOT LIBRARY F: what a process of the same user that has locked itself up can
 * do to code that process PID executes. IMAGE is that of LIBRARY, which both have mapped. First in
 * the directory ROOT, with a user namespace and a /proc; then, in a child that sees all files, in a
 * Landlock domain. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* Linux 6.2 */
#endif

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void attempt(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? "refused" : "DONE");
}

static void write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) fail(path);
    close(file);
}

/* The mapping that holds `place`, as proc(5) lets root open what is mapped. */
static void find_mapping(char *place, char *path, size_t size) {
    unsigned long start = 0, end = 0;
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) fail("maps");
    while (end <= (unsigned long)place && fgets(line, sizeof line, maps))
        sscanf(line, "%lx-%lx", &start, &end);
    fclose(maps);
    snprintf(path, size, "/proc/self/map_files/%lx-%lx", start, end);
}

/* The code at `place`, by the mapping itself. */
static void by_own_mapping(char *place) {
    char *page = (char *)((unsigned long)place & ~4095UL), path[64], byte = 0x90;
    attempt("its pages removed", madvise(page, 4096, MADV_REMOVE));
    find_mapping(place, path, sizeof path);
    attempt("its mapping opened", open(path, O_RDWR));
    /* Its own copy may change, and nothing else. */
    int memory = open("/proc/self/mem", O_RDWR);
    if (memory >= 0 && pwrite(memory, &byte, 1, (long)place) != 1) fail("/proc/self/mem");
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) fail("mprotect");
    memset(page, 0x90, 4096);
}

static void by_process(pid_t pid, char *place) {
    char path[64], byte = 0x90;
    struct iovec from = {&byte, 1}, to = {place, 1};
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    attempt("memory of the other", open(path, O_RDWR));
    attempt("bytes of the other", process_vm_writev(pid, &from, 1, &to, 1, 0));
    attempt("traced", ptrace(PTRACE_ATTACH, pid, 0, 0));
}

static void in_a_root_of_its_own(const char *image, pid_t pid, const char *root, char *place) {
    char path[4096], map[64];
    int user = geteuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
        puts("not tested: there are no user namespaces");
        exit(0);
    }
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %d 1", user);
    write_file("/proc/self/uid_map", map);
    snprintf(path, sizeof path, "%s/proc", root);
    if (mount("/proc", path, NULL, MS_BIND | MS_REC, NULL)) fail(path);
    if (chroot(root) || chdir("/")) fail(root);
    attempt("by its name", open(image, O_RDWR));
    snprintf(path, sizeof path, "/proc/%d/root%s", pid, image);
    attempt("by the root of the other", open(path, O_RDWR));
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    attempt("by the directory of the other", open(path, O_RDONLY));
    by_process(pid, place);
    by_own_mapping(place);
}

static void in_a_domain(const char *image, pid_t pid, char *place) {
    struct landlock_ruleset_attr rules = {
        .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                             LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                             LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_DIR |
                             LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE};
    char path[64], other[4096];
    int held = open(image, O_RDONLY);
    if (held < 0) fail(image);
    snprintf(other, sizeof other, "%s.other", image);
    int file = open(other, O_CREAT | O_WRONLY, 0600);
    if (file < 0) fail(other);
    close(file);
    long set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0);
    if (set < 0) {
        puts("not tested: this kernel has no Landlock");
        exit(0);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, set, 0)) fail("landlock_restrict_self");
    attempt("replaced", rename(other, image));
    snprintf(other, sizeof other, "%s.link", image);
    attempt("linked", link(image, other));
    snprintf(path, sizeof path, "/proc/self/fd/%d", held);
    attempt("opened again", open(path, O_RDWR));
    attempt("truncated", ftruncate(held, 0));
    attempt("a hole", fallocate(held, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, held, 0);
    attempt("mapped to be written", shared == MAP_FAILED ? -1 : 0);
    shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, held, 0);
    if (shared == MAP_FAILED) fail("mmap");
    attempt("made writable", mprotect(shared, 4096, PROT_READ | PROT_WRITE));
    attempt("its shared pages removed", madvise(shared, 4096, MADV_REMOVE));
    by_process(pid, place);
    by_own_mapping(place);
}

int main(int count, char **words) {
    int status;
    if (count != 6) return 2;
    pid_t other = atoi(words[2]);
    void *opened = dlopen(words[4], RTLD_NOW);
    if (!opened) fail(words[4]);
    int (*probe)(const char *) = (int (*)(const char *))dlsym(opened, "probe");
    printf("%d\n", probe(words[5]));
    for (int way = 0; way < 2; way++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            if (way)
                in_a_domain(words[1], other, (char *)probe);
            else
                in_a_root_of_its_own(words[1], other, words[3], (char *)probe);
            fflush(stdout);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status) fail("a child");
    }
    printf("%d\n", probe(words[5]));
    return 0;
}
