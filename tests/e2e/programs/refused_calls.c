// Calls that a seccomp filter of the program's own refuses, on files on a mount and elsewhere:
// refused_calls DIRECTORY Prints what each call's handler sees and what comes of the call; run
// natively and inside, both say the same.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { RESULT = 4242 };

// A filter that does `action` to call `number` if its argument `index` is `value` (index -1:
// always).
static int install(int number, int index, uint32_t value, uint32_t action, unsigned flags) {
    int any = index < 0;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, any ? offsetof(struct seccomp_data, nr) : offsetof(struct seccomp_data, args) + 8 * index),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, any ? (uint32_t)number : value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) err(2, "no_new_privs");
    int done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (done < 0) err(2, "seccomp");
    return done;
}

// Whose instruction made the call: known to who looks at the bytes natively, and expected by
// address inside.
extern char plain_at[], followed_at[], led_at[], island_at[];
long plain(long, long, long, long), followed(long, long, long, long, long), led(long, long, long, long, long), island(long, long, long, long, long);
asm(".text\n"
    ".globl plain, followed, led, island, plain_at, followed_at, led_at, island_at\n"
    // `mov $number,%eax; syscall`
    ".type plain, @function\nplain: mov %rcx,%r10\n mov $257,%eax\n syscall\nplain_at: ret\n.size plain, .-plain\n"
    // The number from a register, instructions to move behind the call: its instruction is moved
    // too.
    ".type followed, @function\nfollowed: mov %r8,%r10\n mov %edi,%eax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n jmp 1f\n1: syscall\nfollowed_at: cmp $-1,%rax\n nop\n ret\n.size followed, .-followed\n"
    // Instructions to move before it.
    ".type led, @function\nled: mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n syscall\nled_at: ret\n.size led, .-led\n"
    // Nothing to move: reached by a jump, ended at once.
    ".type island, @function\nisland: mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n jmp 2f\n2: syscall\nisland_at: ret\n.size island, .-island\n"
);

static volatile struct {
    int count, signal, code, error, number, arch;
    uintptr_t address;
    greg_t rip, rcx, rax, arguments[6];
} seen;
static volatile greg_t answer;
static volatile int jumps;

static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen.count++;
    seen.signal = signal;
    seen.code = info->si_code;
    seen.error = info->si_errno;
    seen.number = info->si_syscall;
    seen.arch = info->si_arch;
    seen.address = (uintptr_t)info->si_call_addr;
    seen.rip = registers[REG_RIP];
    seen.rcx = registers[REG_RCX];
    seen.rax = registers[REG_RAX];
    static const int where[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    for (int i = 0; i < 6; i++) seen.arguments[i] = registers[where[i]];
    registers[REG_RAX] = answer;
}

static void tell(const char *what, long result, uintptr_t at) {
    printf("%s: %ld", what, result);
    if (result == -1) printf(" %s", strerrorname_np(errno));
    if (seen.count)
        printf("; %d signals, code %d errno %d call %d arch %x, rax %lld, rip is %s, address %s, rcx %s", seen.count, seen.code, seen.error,
               seen.number, seen.arch, seen.rax, at ? (uintptr_t)seen.rip == at ? "behind it" : "elsewhere" : "not told",
               seen.address == (uintptr_t)seen.rip ? "the same" : "another", seen.rcx == seen.rip ? "the same" : "another");
    puts("");
    seen.count = 0;
}

static void tell_arguments(int n) {
    printf("  arguments");
    for (int i = 0; i < n; i++) printf(" %llx", seen.arguments[i]);
    puts("");
}

static char *directory, *name;

// Runs `test` in a child and tells how that ended.
static void child(const char *title, void (*test)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        printf("-- %s\n", title);
        test();
        fflush(stdout);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid) err(2, "wait");
    printf("-- %s ends: %s %d\n", title, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void catch(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, 0)) err(2, "sigaction");
    answer = RESULT;
}

static void each_site(void) {
    catch();
    install(SYS_openat, -1, 0, SECCOMP_RET_TRAP | 77, 0);
    const char *paths[] = {name, "/etc/passwd", "/no/such/file", "hello.txt"};
    for (int i = 0; i < 4; i++) {
        long path = (long)paths[i];
        tell("plain", plain(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), (uintptr_t)plain_at);
        if ((long)(int)seen.arguments[0] != AT_FDCWD || seen.arguments[1] != path || seen.arguments[2] != (O_RDONLY | O_CLOEXEC)) puts("other arguments");
        tell("followed", followed(SYS_openat, AT_FDCWD, path, O_RDONLY, 0), (uintptr_t)followed_at);
        if (seen.arguments[1] != path) puts("other arguments");
        tell("led", led(SYS_openat, AT_FDCWD, path, O_RDONLY, 0), (uintptr_t)led_at);
        if (seen.arguments[1] != path) puts("other arguments");
        tell("island", island(SYS_openat, AT_FDCWD, path, O_RDONLY, 0), (uintptr_t)island_at);
        if (seen.arguments[1] != path) puts("other arguments");
        tell("libc", open(paths[i], O_RDONLY), 0);
        tell("syscall", syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0), 0);
        answer = -EXDEV;
        tell("libc", open(paths[i], O_RDONLY), 0);
        answer = RESULT;
    }
}

static void descriptors(void) {
    catch();
    int inside = open(name, O_RDWR), outside = open("/etc/passwd", O_RDONLY);
    char bytes[8] = "", *at = bytes;
    struct stat found;
    install(SYS_read, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_pread64, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_close, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_lseek, 2, SEEK_END, SECCOMP_RET_TRAP, 0);
    install(SYS_fstat, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_newfstatat, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_dup, -1, 0, SECCOMP_RET_TRAP, 0);
    install(SYS_mmap, -1, 0, SECCOMP_RET_TRAP, 0);
    for (int i = 0; i < 2; i++) {
        int fd = i ? outside : inside;
        tell("read", read(fd, at, 4), 0);
        tell_arguments(1);
        tell("pread", pread(fd, at, 4, 0), 0);
        tell("lseek set", lseek(fd, 1, SEEK_SET), 0);
        tell("lseek end", lseek(fd, 0, SEEK_END), 0);
        tell("fstat", fstat(fd, &found), 0);
        tell("dup", dup(fd), 0);
        tell("mmap", (long)mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0), 0);
        tell("close", close(fd), 0);
        tell("stat", stat(i ? "/etc/passwd" : name, &found), 0);
    }
    printf("%d bytes read\n", (int)strlen(bytes));
}

static void processes(void) {
    catch();
    int calls[] = {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, SYS_rt_sigaction, SYS_execve, SYS_chdir, SYS_exit_group};
    for (int i = 0; i < 8; i++) install(calls[i], -1, 0, SECCOMP_RET_TRAP, 0);
    tell("fork", syscall(SYS_fork), 0);
    tell("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), 0);
    long words[11] = {0};
    tell("clone3", syscall(SYS_clone3, words, sizeof words), 0);
    tell("sigaction", syscall(SYS_rt_sigaction, SIGUSR1, 0, 0, 8), 0);
    tell("chdir", chdir("/"), 0);
    char *arguments[] = {"true", 0};
    tell("execve", execve("/bin/true", arguments, arguments), 0);
    tell("exit_group", syscall(SYS_exit_group, 3), 0);
    tell("chain", prctl(PR_GET_SECCOMP), 0);
}

static void errors(void) {
    int fd = open(name, O_RDWR);
    char byte;
    struct statx found;
    // What drivers do not ask for themselves.
    install(SYS_openat, 2, O_RDONLY | O_NONBLOCK, SECCOMP_RET_ERRNO | EXDEV, 0);
    install(SYS_read, -1, 0, SECCOMP_RET_ERRNO | ENETDOWN, 0);
    install(SYS_close, -1, 0, SECCOMP_RET_ERRNO, 0);
    install(SYS_statx, 2, AT_NO_AUTOMOUNT, SECCOMP_RET_ERRNO | EL2HLT, 0);
    install(SYS_unlink, -1, 0, SECCOMP_RET_ERRNO | EPERM, 0);
    install(SYS_rt_sigprocmask, -1, 0, SECCOMP_RET_ERRNO | ENAVAIL, 0);
    tell("open", open(name, O_RDONLY | O_NONBLOCK), 0);
    tell("open to write", open(name, O_WRONLY) >= 0, 0);
    tell("read", read(fd, &byte, 1), 0);
    tell("close", close(fd), 0);
    tell("lseek", lseek(fd, 0, SEEK_CUR), 0);
    tell("statx", statx(AT_FDCWD, name, AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &found), 0);
    tell("unlink", unlink(name), 0);
    tell("sigprocmask", sigprocmask(SIG_BLOCK, 0, 0), 0);
    tell("there", access(name, F_OK), 0);
}

static void killed_by(uint32_t action) {
    int fd = open(name, O_RDONLY);
    char byte;
    install(SYS_read, 0, fd, action, 0);
    puts("reads");
    fflush(stdout);
    tell("read", read(fd, &byte, 1), 0);
}
static void killed(void) { killed_by(SECCOMP_RET_KILL_PROCESS); }
static void killed_thread(void) { killed_by(SECCOMP_RET_KILL_THREAD); }
static void not_caught(void) { killed_by(SECCOMP_RET_TRAP); }
static void logged(void) { killed_by(SECCOMP_RET_LOG); }
static void not_traced(void) {
    int fd = open("/etc/passwd", O_RDONLY);
    char byte;
    install(SYS_read, 0, fd, SECCOMP_RET_TRACE | 5, 0);
    tell("read", read(fd, &byte, 1), 0);
}
static void ignored(void) {
    signal(SIGSYS, SIG_IGN);
    killed_by(SECCOMP_RET_TRAP);
}
static void blocked(void) {
    catch();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigprocmask(SIG_BLOCK, &set, 0);
    killed_by(SECCOMP_RET_TRAP);
}
static void strictly(void) {
    int fd = open("/etc/passwd", O_RDONLY);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    lseek(fd, 0, SEEK_SET);
}

// The strictest of several decides, and what a child adds is not its parent's.
static void chains(void) {
    catch();
    install(SYS_openat, -1, 0, SECCOMP_RET_ERRNO | EXDEV, 0);
    tell("open", open(name, O_RDONLY), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        install(SYS_openat, -1, 0, SECCOMP_RET_TRAP, 0);
        tell("open in the child", open(name, O_RDONLY), 0);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
    install(SYS_openat, -1, 0, SECCOMP_RET_ALLOW, 0);
    tell("open", open(name, O_RDONLY), 0);
}

static int thread(void *unused) {
    (void)unused;
    tell("open in a thread made after", open(name, O_RDONLY), 0);
    install(SYS_openat, -1, 0, SECCOMP_RET_TRAP, 0);
    tell("open under its own", open(name, O_RDONLY), 0);
    return 0;
}
#include <pthread.h>
static pthread_barrier_t barrier;
static void *waits(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    tell("open in a thread made before", open(name, O_RDONLY) >= 0 ? 0 : -1, 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    tell("open in it, after one for all", open(name, O_RDONLY), 0);
    return 0;
}
static void *starts(void *unused) { return thread(unused), (void *)0; }
static void threads(void) {
    catch();
    pthread_t before, after;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&before, 0, waits, 0);
    pthread_barrier_wait(&barrier);
    install(SYS_openat, -1, 0, SECCOMP_RET_ERRNO | EXDEV, 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pthread_create(&after, 0, starts, 0);
    pthread_join(after, 0);
    tell("open in the first", open(name, O_RDONLY), 0);
    install(SYS_openat, -1, 0, SECCOMP_RET_ERRNO | EL3RST, SECCOMP_FILTER_FLAG_TSYNC);
    pthread_barrier_wait(&barrier);
    pthread_join(before, 0);
}

// A supervisor that answers by itself.
static void supervised(void) {
    int listener = install(SYS_getppid, -1, 0, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        long result = syscall(SYS_getppid);
        printf("supervised: %ld\n", result);
        fflush(stdout);
        _exit(0);
    }
    struct seccomp_notif asked = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) err(2, "receive");
    struct seccomp_notif_resp reply = {.id = asked.id, .val = RESULT};
    printf("asked: %d\n", asked.data.nr);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply)) err(2, "send");
    waitpid(pid, 0, 0);
}

// The handler goes on elsewhere: it jumps out, or gives the calls to others as Chromium's does.
#include <setjmp.h>
static sigjmp_buf out;
static void leaves(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    siglongjmp(out, 1);
}
static int allowed_fd = -1;
static void opens(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if ((greg_t)info->si_call_addr != registers[REG_RIP] || info->si_syscall != registers[REG_RAX]) _exit(9);
    // Another call than the one refused.
    registers[REG_RAX] = syscall(SYS_open, registers[REG_RSI], registers[REG_RDX], 0);
}
static void elsewhere(void) {
    struct sigaction action = {.sa_sigaction = leaves, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    install(SYS_openat, -1, 0, SECCOMP_RET_TRAP, 0);
    for (int i = 0; i < 3; i++)
        if (!sigsetjmp(out, 1)) {
            if (i == 0) open(name, O_RDONLY);
            if (i == 1) followed(SYS_openat, AT_FDCWD, (long)name, 0, 0);
            if (i == 2) syscall(SYS_openat, AT_FDCWD, "/etc/passwd", 0, 0);
            puts("came back");
        } else
            puts("left");
    action.sa_sigaction = opens;
    sigaction(SIGSYS, &action, 0);
    char word[6] = "";
    allowed_fd = open("/etc/passwd", O_RDONLY);
    tell("read what the handler opened", read(allowed_fd, word, 5), 0);
    puts(word);
    allowed_fd = followed(SYS_openat, AT_FDCWD, (long)"/etc/passwd", 0, 0);
    tell("read what the handler opened", read(allowed_fd, word, 5), 0);
}

int main(int count, char **arguments) {
    if (count < 2 || chdir(directory = arguments[1])) err(2, "usage: refused_calls DIRECTORY");
    if (asprintf(&name, "%s/hello.txt", directory) < 0) return 2;
    child("each site", each_site);
    child("descriptors", descriptors);
    child("processes", processes);
    child("errors", errors);
    child("killed", killed);
    child("thread killed", killed_thread);
    child("not caught", not_caught);
    child("ignored", ignored);
    child("blocked", blocked);
    child("logged", logged);
    child("not traced", not_traced);
    child("strict", strictly);
    child("chains", chains);
    child("threads", threads);
    child("supervised", supervised);
    child("elsewhere", elsewhere);
    return 0;
}
