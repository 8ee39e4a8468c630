// Credentials belong to the thread: threads that change theirs by the calls themselves, as Samba
// does, beside others that do not.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { ROOT, OTHER = 1000, GROUP = 1007 };

static void say(const char *what, long result) {
    printf(" %s=%s", what, result < 0 ? strerrorname_np(errno) : "ok");
}

static void opens(const char *name, int flags) {
    int fd = open(name, flags);
    char what[100];
    snprintf(what, sizeof what, "%s%s", name, flags == O_RDONLY ? ":r" : flags == O_WRONLY ? ":w" : ":a");
    say(what, fd);
    if (fd >= 0) close(fd);
}

// What the calling thread may.
static void probe(const char *who) {
    struct stat is;
    printf("  %s:", who);
    static const char *names[] = {"root600", "root640", "other600", "group060", "dir700/f", "write", "list"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        opens(names[i], O_RDONLY);
        opens(names[i], O_WRONLY);
        char what[100];
        snprintf(what, sizeof what, "access(%s)", names[i]);
        say(what, access(names[i], R_OK));
        snprintf(what, sizeof what, "eaccess(%s)", names[i]);
        say(what, faccessat(AT_FDCWD, names[i], R_OK, AT_EACCESS));
    }
    opens("list", O_RDONLY | O_DIRECTORY);
    opens("root644", O_RDONLY | O_NOATIME);
    say("x", access("root600", X_OK));
    say("chmod", chmod("root644", 0644));
    say("chown", chown("root644", ROOT, ROOT));
    say("chown-away", chown("other600", 5, -1));
    chown("other600", OTHER, OTHER);
    say("chown-nobody", chown("set", -1, -1));
    say("chown-nobody-plain", chown("root644", -1, -1));
    say("utimes", utimensat(AT_FDCWD, "root644", NULL, 0));
    struct timespec old[2] = {{1, 0}, {1, 0}};
    say("set-times", utimensat(AT_FDCWD, "root644", old, 0));
    say("truncate", truncate("root644", 1));
    say("sticky", rename("sticky/f", "sticky/g"));
    rename("sticky/g", "sticky/f");
    int made = open("all/new", O_RDWR | O_CREAT | O_EXCL, 0600);
    say("create", made);
    if (made >= 0) {
        fstat(made, &is);
        printf("(%u.%u)", is.st_uid, is.st_gid);
        close(made);
    }
    say("unlink", unlink("all/new"));
    say("mkdir", mkdir("all/d", 0700));
    if (stat("all/d", &is) == 0) printf("(%u.%u)", is.st_uid, is.st_gid);
    say("rmdir", rmdir("all/d"));
    say("mknod", mknod("all/n", S_IFCHR | 0600, makedev(1, 3)));
    unlink("all/n");
    say("fifo", mkfifo("all/p", 0600));
    unlink("all/p");
    say("group", chmod("in-group", 02755));
    if (stat("in-group", &is) == 0) printf("(%o)", is.st_mode & 07777);
    say("trusted", setxattr("root644", "trusted.a", "b", 1, 0));
    printf("\n");
}

struct task {
    const char *name;
    void (*change)(void);
};

static void ids(void) {
    syscall(SYS_setgroups, 0, NULL);
    syscall(SYS_setresgid, OTHER, OTHER, OTHER);
    syscall(SYS_setresuid, OTHER, OTHER, OTHER);
}
static void effective(void) {
    syscall(SYS_setresgid, -1, OTHER, -1);
    syscall(SYS_setresuid, -1, OTHER, -1);
}
static void real(void) {
    syscall(SYS_setresgid, OTHER, -1, -1);
    syscall(SYS_setresuid, OTHER, -1, -1);
}
static void fsuid(void) { syscall(SYS_setfsuid, OTHER); }
static void fsgid(void) {
    syscall(SYS_setgroups, 0, NULL);
    syscall(SYS_setfsgid, GROUP);
    syscall(SYS_setfsuid, 5);
}
static void there_and_back(void) {
    syscall(SYS_setfsuid, OTHER);
    opens("root600", O_RDONLY);
    syscall(SYS_setfsuid, ROOT);
}
static void groups(void) {
    gid_t group = GROUP;
    syscall(SYS_setgroups, 1, &group);
    syscall(SYS_setresgid, OTHER, OTHER, OTHER);
    syscall(SYS_setresuid, OTHER, OTHER, OTHER);
}

// Leaves of the effective set only what `kept` says.
static void keep(uint64_t kept) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &header, data);
    data[0].effective = data[0].permitted & (uint32_t)kept;
    data[1].effective = data[1].permitted & (uint32_t)(kept >> 32);
    if (syscall(SYS_capset, &header, data)) perror("capset");
}
#define CAP(name) (1ull << CAP_##name)
static void none(void) { keep(0); }
static void no_override(void) { keep(~CAP(DAC_OVERRIDE)); }
static void no_search(void) { keep(~(CAP(DAC_OVERRIDE) | CAP(DAC_READ_SEARCH))); }
static void no_owner(void) { keep(~CAP(FOWNER)); }
static void no_chown(void) { keep(~CAP(CHOWN)); }
static void no_fsetid(void) { keep(~CAP(FSETID)); }
static void no_mknod(void) { keep(~(CAP(MKNOD) | CAP(SYS_ADMIN))); }
static void kept(uint64_t which) {
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    ids();
    keep(which);
}
static void only_search(void) { kept(CAP(DAC_READ_SEARCH)); }
static void only_override(void) { kept(CAP(DAC_OVERRIDE)); }
static void only_owner(void) { kept(CAP(FOWNER)); }
static void only_chown(void) { kept(CAP(CHOWN)); }
static void only_fsetid(void) { kept(CAP(FSETID)); }
static void no_fixup(void) {
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
    ids();
}
// Rights that were given up before stay so when access(2) has gone by the real user.
static void real_without(void) {
    real();
    keep(~CAP(DAC_OVERRIDE));
    access("root600", R_OK);
}

static void *again(void *_) {
    probe("its thread");
    return NULL;
}

static void *run(void *argument) {
    struct task *task = argument;
    task->change();
    probe("thread");
    pthread_t inner;
    pthread_create(&inner, NULL, again, NULL);
    pthread_join(inner, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        probe("its child");
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return NULL;
}

static void file(const char *name, uid_t uid, gid_t gid, mode_t mode) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || write(fd, "text", 4) != 4 || fchown(fd, uid, gid) || fchmod(fd, mode)) perror(name);
    close(fd);
}

// The same in another user namespace, which gives capabilities over nothing that was there before.
static void in_namespace(const char *who, void (*change)(void)) {
    printf("namespace of %s\n", who);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        change();
        if (unshare(CLONE_NEWUSER)) perror("unshare");
        printf("  %s:", who);
        static const char *names[] = {"root600", "other600", "dir700/f", "list/f"};
        for (unsigned i = 0; i < 4; i++) opens(names[i], O_RDONLY), opens(names[i], O_WRONLY);
        say("chmod", chmod("root644", 0644));
        say("sticky", rename("sticky/f", "sticky/g"));
        rename("sticky/g", "sticky/f");
        printf("\n");
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}
static void nothing(void) {}

int main(int count, char **arguments) {
    if (count < 2 || chdir(arguments[1])) return 1;
    umask(0);
    chmod(".", 0755);
    file("root600", ROOT, ROOT, 0600);
    file("root640", ROOT, GROUP, 0640);
    file("root644", ROOT, ROOT, 0644);
    file("other600", OTHER, OTHER, 0600);
    file("group060", ROOT, GROUP, 0060);
    file("write", ROOT, ROOT, 0222);
    file("set", ROOT, ROOT, 0);
    mkdir("dir700", 0700);
    file("dir700/f", ROOT, ROOT, 0666);
    mkdir("list", 0744);
    file("list/f", ROOT, ROOT, 0644);
    mkdir("all", 0777);
    mkdir("sticky", 01777);
    file("sticky/f", ROOT, ROOT, 0666);
    file("in-group", OTHER, GROUP, 0755);
    static struct task tasks[] = {
        {"ids", ids}, {"effective", effective}, {"real", real}, {"fsuid", fsuid}, {"fsgid", fsgid},
        {"back", there_and_back}, {"groups", groups}, {"none", none}, {"no override", no_override},
        {"no search", no_search}, {"no owner", no_owner}, {"no chown", no_chown}, {"no fsetid", no_fsetid},
        {"no mknod", no_mknod}, {"search", only_search}, {"override", only_override}, {"owner", only_owner},
        {"chown", only_chown}, {"fsetid", only_fsetid}, {"no fixup", no_fixup}, {"real without", real_without},
    };
    for (unsigned i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        chown("in-group", OTHER, GROUP);
        chown("set", ROOT, ROOT);
        chmod("set", 06755);
        printf("%s\n", tasks[i].name);
        pthread_t thread;
        pthread_create(&thread, NULL, run, &tasks[i]);
        pthread_join(thread, NULL);
        printf("  maker:");
        opens("root600", O_RDWR);
        opens("other600", O_RDWR);
        printf("\n");
    }
    in_namespace("root", nothing);
    in_namespace("other", ids);
    // The C library's calls are for all threads.
    printf("all\n");
    if (setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER)) perror("setresuid");
    probe("maker");
    return 0;
}
