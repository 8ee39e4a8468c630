// A file that has been mapped is opened, then a filter allows little more than reading what is
// open: confined_reads FILE The same with a mapping that stays, whose descriptor is closed before
// the program is killed: confined_reads FILE closes Asks in every usual way whether there are
// filters, installs none but in a child of vfork, and stores into old and new mappings:
// confined_reads FILE asks With a filter that allows nothing but to write, to unmap and to end, by
// a program that does so: confined_reads FILE exits | unmaps
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

// Nothing that is not in `allowed`, `n` numbers.
static void allow(const int *allowed, int n) {
    static struct sock_filter code[32];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n; i++) code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], n - i, 0);
    code[n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n + 3, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) err(2, "seccomp");
}

static void filter(int closes) {
    static const int allowed[] = {SYS_read, SYS_pread64, SYS_write, SYS_lseek, SYS_exit_group, SYS_futex,
                                  // For who closes.
                                  SYS_close, SYS_fstat, SYS_fcntl, SYS_kill};
    enum { most = sizeof allowed / sizeof *allowed };
    allow(allowed, closes ? most : most - 4);
}

static void ends(char *at, int unmaps) {
    static const int allowed[] = {SYS_write, SYS_exit_group, SYS_munmap};
    allow(allowed, unmaps ? 3 : 2);
    memcpy(at, "STORED", 6);
    write(1, "ends\n", 5);
    if (unmaps && munmap(at, PAGE)) _exit(1);
    _exit(0);
}

// What programs ask before they use filters, or know to do without: none is installed.
static void ask(void) {
    unsigned action = SECCOMP_RET_LOG;
    struct seccomp_notif_sizes sizes;
    struct sock_fprog empty = {0, 0};
    printf("%ld", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
    printf(" %ld", syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes));
    printf(" %ld %d", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL), errno);
    printf(" %ld %d", syscall(SYS_seccomp, 99, 0, NULL), errno);
    printf(" %d %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0), errno);
    printf(" %d %d", prctl(PR_SET_SECCOMP, 99, NULL, 0, 0), errno);
    // One that the kernel looks at, and refuses.
    printf(" %d %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty, 0, 0), errno);
    printf(" %ld %d", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &empty), errno);
    printf(" %d\n", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

// A child of vfork, as launchers of sandboxes make them, has a filter for itself.
static void child_with_filter(void) {
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    pid_t child = vfork();
    if (child == 0) _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    int status = -1;
    waitpid(child, &status, 0);
    printf("child %d, filter %d\n", status, prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

static void asks(int fd, char *at) {
    char bytes[8] = "";
    ask();
    child_with_filter();
    memcpy(at, "STORED", 6);
    if (pread(fd, bytes, 6, 0) != 6) err(2, "pread");
    printf("%s", bytes);
    if (pwrite(fd, "BY", 2, 7) != 2) err(2, "pwrite");
    char *other = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (other == MAP_FAILED) err(2, "a mapping after that");
    memcpy(other + 12, "CALL", 4);
    printf(" %.2s %.4s\n", at + 7, at + 12);
}

int main(int count, char **words) {
    if (count < 2) return 64;
    char bytes[PAGE] = "stored by a call, ";
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, bytes, PAGE) != PAGE) err(2, "%s", words[1]);
    char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) err(2, "mmap");
    memcpy(at + 18, "and by a mapping\n", 17);
    if (count > 2 && !strcmp(words[2], "asks")) {
        asks(fd, at);
        return 0;
    }
    if (count > 2 && strcmp(words[2], "closes")) ends(at, !strcmp(words[2], "unmaps"));
    if (count > 2) {
        pid_t me = getpid();
        filter(1);
        memcpy(at, "STORED", 6);
        if (close(fd)) _exit(1);
        memcpy(at + 7, "BY", 2);
        write(1, "closed\n", 7);
        kill(me, SIGKILL);
    }
    munmap(at, PAGE);
    close(fd);
    // Never read before the filter comes.
    int first = open(words[1], O_RDONLY), second = open(words[1], O_RDWR);
    filter(0);
    ssize_t got = read(first, bytes, PAGE);
    if (got != PAGE || write(1, bytes, strlen(bytes)) < 0) _exit(1);
    got = pread(second, bytes, 5, 18);
    if (got != 5 || write(1, bytes, 5) != 5) _exit(1);
    _exit(lseek(first, 0, SEEK_CUR) != PAGE);
}
