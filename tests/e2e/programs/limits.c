/* Programs under limits of their own. Usage: limits KIND PROGRAM..., which then runs under
   as        RLIMIT_AS of 256 MiB
   nofile    RLIMIT_NOFILE of 16
   mlockall  everything locked, now and later
   mdwe      memory that is written is never executed (MDWE), inherited
   seccomp   a filter that allows what cat needs and kills the rest
   none      as it is
   With `self` for the program the file operations are done right here, under the limit. */
#include "probe.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <dlfcn.h>
#include <stddef.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static void filter(void)
{
    static const int allowed[] = { SYS_read, SYS_pread64, SYS_write, SYS_open, SYS_openat, SYS_close, SYS_newfstatat, SYS_fstat, SYS_stat, SYS_lstat, SYS_lseek, SYS_mmap, SYS_munmap,
        SYS_mprotect, SYS_brk, SYS_exit_group, SYS_exit, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_fcntl, SYS_dup, SYS_dup2, SYS_dup3, SYS_getdents64,
        SYS_readlink, SYS_ioctl, SYS_futex };
    enum { n = sizeof allowed / sizeof *allowed };
    static struct sock_filter code[n + 3];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n; i++)
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], n - i, 0);
    code[n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { n + 3, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        die("seccomp");
}

static void limit(int what, rlim_t value)
{
    struct rlimit limit = { value, value };
    if (setrlimit(what, &limit) != 0)
        die("setrlimit");
}

static void here(int loading)
{
    char bytes[4096];
    struct stat st;
    int fd = SHOW(open("hello.txt", O_RDONLY));
    SHOW(read(fd, bytes, 100));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(fstat(fd, &st));
    SHOW(open("missing", O_RDONLY));
    SHOW(open("hello.txt", O_WRONLY));
    SHOW(stat("links/dir/a.txt", &st));
    SHOW(close(fd));
    fd = open("dir", O_RDONLY | O_DIRECTORY);
    printf("directory %d\n", syscall(SYS_getdents64, fd, bytes, sizeof bytes) > 0);
    close(fd);
    fd = open("data.bin", O_RDONLY);
    char *map = mmap(NULL, 300001, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("mapped %016lx\n", map == MAP_FAILED ? 0 : digest(map, 300001));
    if (loading)
        printf("library %s\n", dlopen("libresolv.so.2", RTLD_NOW) ? "loaded" : "NOT LOADED");
    puts("done");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *kind = argv[1];
    int self = strcmp(argv[2], "self") == 0;
    struct stat st;
    /* What comes before, and what is opened before the limit. */
    stat("hello.txt", &st);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    printf("limit %s\n", kind);
    if (strcmp(kind, "as") == 0)
        limit(RLIMIT_AS, 256 << 20);
    else if (strcmp(kind, "nofile") == 0)
        limit(RLIMIT_NOFILE, 16);
    else if (strcmp(kind, "mlockall") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && errno != ENOMEM && errno != EPERM)
            die("mlockall");
    } else if (strcmp(kind, "mdwe") == 0) {
        if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
            die("PR_SET_MDWE");
    } else if (strcmp(kind, "seccomp") == 0)
        filter();
    if (self) {
        here(strcmp(kind, "seccomp") != 0);
        _exit(0);
    }
    fflush(stdout);
    execvp(argv[2], argv + 2);
    die("exec");
}
