/* Images of rewritten code, from inside: what of the code is private, libraries that are opened
 * again and again, breakpoints, and a confined process that wants to change an image.
 *
 * clean            the code of libc and ld.so has no private page
 * private NAME     "yes" when the code of NAME, which is loaded by LD_PRELOAD, has private pages
 * loop LIBRARY F   opens and closes LIBRARY 300 times; its probe() opens F
 * load LIBRARY F   maps LIBRARY as ld.so does, but for a flag, or twice in turn; its probe() opens F
 * each F LIBRARY... opens and closes each; what their probe() makes of F, once for those that agree
 * wait LIBRARY F   says "ready", waits for a line, then opens LIBRARY, forks and executes
 * libc F           what libc's toascii() makes of 127, and what F says
 * stay F LIBRARY   for each line that it reads: itself, a child of fork, and one of exec say that;
 *                  and what probe() of LIBRARY, if that is given, says of F
 * timed F GO HOW   threads, forks and a timer whose handler has 8 KiB look at F, until a while after
 *                  GO is there; HOW may be "own": SIGBUS has a handler
 * traced           breakpoints that a debugger has put into ld.so stay
 * busy             calls libc's random() for a quarter of a second
 * attack FILE      what a process that may write nothing can do to FILE
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* Linux 6.2 */
#endif

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Kilobytes of copied pages in the code of files whose path ends in name; -1: there is none. */
static long private_code(const char *name) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[4096];
    long sum = -1;
    int wanted = 0;
    if (!maps) fail("smaps");
    while (fgets(line, sizeof line, maps)) {
        char rights[5];
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3) {
            char *base = strrchr(line, '/');
            wanted = !strcmp(rights, "r-xp") && base && strstr(base, name);
            if (wanted && sum < 0) sum = 0;
        } else if (wanted && !strncmp(line, "Anonymous:", 10)) {
            sum += atol(line + 10);
        }
    }
    fclose(maps);
    return sum;
}

static int mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0, c;
    if (!maps) fail("maps");
    while ((c = fgetc(maps)) != EOF) lines += c == '\n';
    fclose(maps);
    return lines;
}

static int probe(const char *library, const char *file) {
    void *opened = dlopen(library, RTLD_NOW);
    if (!opened) {
        puts(dlerror());
        exit(1);
    }
    int (*function)(const char *) = (int (*)(const char *))dlsym(opened, "probe");
    int answer = function(file);
    dlclose(opened);
    return answer;
}

static int loop(const char *library, const char *file) {
    int first = probe(library, file), before = 0;
    for (int i = 0; i < 300; i++) {
        if (probe(library, file) != first) return 1;
        if (i == 10) before = mappings();
    }
    /* Each time a mapping or two more would be 600. */
    printf("%d, %s\n", first, mappings() - before < 10 ? "no more mappings" : "ever more mappings");
    return 0;
}

static int each(const char *file, char **libraries) {
    for (int last = 0; *libraries; libraries++) {
        int now = probe(*libraries, file);
        if (now != last) printf("%d\n", now);
        last = now;
    }
    return 0;
}

/* All of a library, then its code, as ld.so maps them. */
static char *map_all(int file, size_t length) {
    char *base = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_DENYWRITE, file, 0);
    if (base == MAP_FAILED) fail("mmap");
    return base;
}

static void map_code(char *base, const Elf64_Phdr *code, int file, int flag) {
    unsigned long before = code->p_vaddr % 4096;
    int flags = MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE | flag;
    char *place = base + code->p_vaddr - before;
    if (mmap(place, code->p_filesz + before, PROT_READ | PROT_EXEC, flags, file,
             code->p_offset - before) != place)
        fail("mmap");
}

static int load(const char *library, const char *path) {
    void *opened = dlopen(library, RTLD_NOW);
    Dl_info found;
    int file = open(library, O_RDONLY);
    if (!opened || !dladdr(dlsym(opened, "probe"), &found) || file < 0) fail(library);
    /* It stays open: what it leaves is not used. */
    char *own = found.dli_fbase;
    long probe = (char *)found.dli_saddr - own;
    const Elf64_Phdr *parts = (void *)(own + ((Elf64_Ehdr *)own)->e_phoff), *code = NULL;
    size_t length = 0;
    for (int i = 0; i < ((Elf64_Ehdr *)own)->e_phnum; i++) {
        if (parts[i].p_type != PT_LOAD) continue;
        if (parts[i].p_flags & PF_X) code = &parts[i];
        length = parts[i].p_vaddr + parts[i].p_memsz;
    }
    char *bases[3] = {map_all(file, length)};
    map_code(bases[0], code, file, MAP_POPULATE);
    bases[1] = map_all(file, length);
    bases[2] = map_all(file, length);
    map_code(bases[1], code, file, 0);
    map_code(bases[2], code, file, 0);
    for (int i = 0; i < 3; i++) {
        int (*function)(const char *) = (int (*)(const char *))(bases[i] + probe);
        printf("%d\n", function(path));
    }
    return 0;
}

static int waiting(const char *library, const char *file) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    printf("%d\n", probe(library, file));
    fflush(stdout);
    int status;
    pid_t child = fork();
    if (!child) {
        execl("/bin/cat", "cat", file, NULL);
        _exit(9);
    }
    if (waitpid(child, &status, 0) != child) fail("waitpid");
    return WEXITSTATUS(status);
}

/* What libc's own code makes of 127, and what is in the file. */
static int libc(const char *path) {
    int (*volatile function)(int) = toascii;
    char text[16] = "";
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) fail(path);
    close(file);
    printf("%d %s", function(127), text);
    fflush(stdout);
    return 0;
}

static int stay(const char *self, const char *path, const char *library) {
    char line[16];
    int (*probe)(const char *) = NULL;
    if (library) {
        void *opened = dlopen(library, RTLD_NOW);
        if (!opened) fail(library);
        probe = (int (*)(const char *))dlsym(opened, "probe");
    }
    while (fgets(line, sizeof line, stdin)) {
        int status;
        if (probe) printf("%d ", probe(path));
        libc(path);
        for (int execs = 0; execs < 2; execs++) {
            pid_t child = fork();
            if (!child) {
                if (!execs) _exit(libc(path));
                execl(self, self, "libc", path, NULL);
                _exit(9);
            }
            if (waitpid(child, &status, 0) != child || status) fail("a child");
        }
    }
    return 0;
}

static const char *looked_at;
static volatile sig_atomic_t ticks, is_over;

/* Calls of libc's own code, and of the kernel, by libc and by ld.so's side of it. */
static void look(void) {
    int (*volatile function)(int) = toascii;
    struct stat found;
    if (function(255) != 127 || stat(looked_at, &found) || found.st_size != 5) _exit(7);
}

static void tick(int number) {
    (void)number;
    look();
    ticks++;
}

/* The program's own handler for what is none of its business. */
static void never(int number) {
    (void)number;
    _exit(8);
}

static void *looker(void *nothing) {
    while (!is_over) look();
    return nothing;
}

static void tick_each_millisecond(void) {
    struct itimerval often = {{0, 1000}, {0, 1000}};
    if (setitimer(ITIMER_REAL, &often, NULL)) fail("setitimer");
}

static int timed(const char *path, const char *go, const char *how) {
    static char small[8192];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
    pthread_t thread;
    int status;
    looked_at = path;
    if (sigaltstack(&stack, NULL) || sigaction(SIGALRM, &action, NULL)) fail("a signal");
    action.sa_handler = never;
    if (how && sigaction(SIGBUS, &action, NULL)) fail("SIGBUS");
    if (pthread_create(&thread, NULL, looker, NULL)) fail("a thread");
    tick_each_millisecond();
    puts("ready");
    fflush(stdout);
    for (int left = 10; left; left -= access(go, F_OK) == 0) {
        pid_t child = fork();
        if (!child) {
            ticks = 0;
            tick_each_millisecond();
            for (int i = 0; i < 50; i++) look();
            while (ticks < 2) look();
            _exit(0);
        }
        look();
        if (waitpid(child, &status, 0) != child) fail("waitpid");
        if (status) {
            printf("a child: %#x\n", status);
            return 1;
        }
    }
    is_over = 1;
    pthread_join(thread, NULL);
    puts("over");
    return 0;
}

/* Where ld.so begins in process pid, and where its code ends. */
static void find_loader(pid_t pid, unsigned long *begins, unsigned long *ends) {
    char path[64], line[4096];
    unsigned long start, end;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    if (!maps) fail(path);
    *begins = *ends = 0;
    while (fgets(line, sizeof line, maps)) {
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) continue;
        if (!strstr(line, "/ld-linux")) continue;
        if (!*begins) *begins = start;
        if (!strcmp(rights, "r-xp")) *ends = end;
    }
    fclose(maps);
}

/* Puts a breakpoint at a place of process pid. */
static void stop_at(pid_t pid, unsigned long place) {
    long there = ptrace(PTRACE_PEEKTEXT, pid, place, 0);
    if (ptrace(PTRACE_POKETEXT, pid, place, (there & ~0xffL) | 0xcc)) fail("poke");
}

/* Like a debugger: a breakpoint where ld.so tells of libraries, and the user's, elsewhere. */
static int traced(const char *self) {
    int status, told = 0;
    struct user_regs_struct registers;
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(self, self, "nothing", NULL);
        _exit(9);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("no stop");
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXIT);
    unsigned long begins, ends;
    find_loader(child, &begins, &ends);
    /* Of a function that does nothing. */
    unsigned long tells = begins + (_r_debug.r_brk - getauxval(AT_BASE)), place = ends - 16;
    stop_at(child, tells);
    stop_at(child, place);
    for (;;) {
        int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        if (WSTOPSIG(status) == SIGTRAP && registers.rip == tells + 1) {
            told++;
            registers.rip = ptrace(PTRACE_PEEKTEXT, child, registers.rsp, 0);
            registers.rsp += 8;
            ptrace(PTRACE_SETREGS, child, 0, &registers);
        }
        ptrace(PTRACE_CONT, child, 0, signal);
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("it ended");
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) break;
    }
    long stays = ptrace(PTRACE_PEEKTEXT, child, place, 0) & 0xff;
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    puts(told > 1 && stays == 0xcc ? "breakpoints stay" : "breakpoints are lost");
    return 0;
}

static void attempt(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "DONE");
}

static int attack(const char *file) {
    struct landlock_ruleset_attr rules = {
        .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                             LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                             LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_DIR |
                             LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE};
    char path[64], other[4096];
    int held = open(file, O_RDONLY);
    if (held < 0) fail(file);
    long set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0);
    if (set < 0) {
        puts("not tested: this kernel has no Landlock");
        return 0;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, set, 0)) fail("landlock_restrict_self");
    chmod(file, 0600); /* Landlock does not ask about that. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", held);
    snprintf(other, sizeof other, "%s.new", file);
    attempt("open to write", open(file, O_RDWR));
    attempt("open again to write", open(path, O_RDWR));
    attempt("truncate", truncate(file, 0));
    attempt("rename", rename(file, other));
    attempt("unlink", unlink(file));
    attempt("create", open(other, O_CREAT | O_WRONLY, 0600));
    attempt("a link", link(file, other));
    chmod(file, 0400);
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "clean")) {
        long libc = private_code("libc."), loader = private_code("ld-linux");
        printf("private code: libc %ld kB, ld.so %ld kB\n", libc, loader);
        return 0;
    }
    if (!strcmp(what, "private")) {
        long found = private_code(words[2]);
        return puts(found < 0 ? "not loaded" : found ? "yes" : "no") < 0;
    }
    if (!strcmp(what, "loop")) return loop(words[2], words[3]);
    if (!strcmp(what, "each")) return each(words[2], words + 3);
    if (!strcmp(what, "probe")) return printf("%d\n", probe(words[2], words[3])) < 0;
    if (!strcmp(what, "load")) return load(words[2], words[3]);
    if (!strcmp(what, "wait")) return waiting(words[2], words[3]);
    if (!strcmp(what, "nothing")) return 0;
    if (!strcmp(what, "libc")) return libc(words[2]);
    if (!strcmp(what, "stay")) return stay(words[0], words[2], words[3]);
    if (!strcmp(what, "timed")) return timed(words[2], words[3], words[4]);
    if (!strcmp(what, "traced")) return traced(words[0]);
    if (!strcmp(what, "busy")) {
        clock_t end = clock() + CLOCKS_PER_SEC / 4;
        while (clock() < end)
            for (int i = 0; i < 100000; i++) random();
        return 0;
    }
    if (!strcmp(what, "attack")) return attack(words[2]);
    return 2;
}
