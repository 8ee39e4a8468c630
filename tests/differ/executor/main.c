/* The executor's beginning: the first process watches over the actors, and shows what is left at
 * the end. */
#include "executor.h"
#include <dirent.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <grp.h>
#include <time.h>

struct control *control;
struct step *program;
const char *executor_path, *control_path, *program_path, *mount_path, *outside_path;

static void fail(const char *what)
{
    fprintf(stderr, "executor: %s: %s\n", what, strerror(errno));
    _exit(3);
}

void carry_out(struct step *s, int at)
{
    now = s->number;
    if (at < s->words && !file_operation(s, at) && !transfer_operation(s, at) && !descriptor_operation(s, at) &&
        !name_operation(s, at) && !attribute_operation(s, at) && !directory_operation(s, at) &&
        !mapping_operation(s, at) && !process_operation(s, at))
        out(" unknown");
}

static uint32_t read_program(void)
{
    FILE *stream = fopen(program_path, "re");
    char *line = NULL;
    size_t room = 0;
    uint32_t count = 0;
    if (!stream)
        fail(program_path);
    while (getline(&line, &room, stream) > 0) {
        struct step step = { .number = (int)count };
        char *rest = strdup(line), *word;
        step.actor = (int)strtol(rest, &rest, 10);
        while ((word = strsep(&rest, " \n")) && step.words < WORDS)
            if (*word)
                step.word[step.words++] = word;
        if (!step.words || line[0] == '#')
            continue;
        if (step.actor < 0 || step.actor >= ACTORS) {
            fprintf(stderr, "executor: no actor: %s", line);
            _exit(3);
        }
        program = realloc(program, (count + 1) * sizeof *program);
        program[count++] = step;
    }
    fclose(stream);
    return count;
}

static void map_control(void)
{
    int fd = open(control_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd == -1 || ftruncate(fd, sizeof *control) == -1)
        fail(control_path);
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        fail("mmap");
    close(fd);
}

/* Waits until a process has ended, which a pidfd tells of zombies too; at most so many
 * milliseconds. */
static bool ended(pid_t process, int limit)
{
    int fd = (int)syscall(SYS_pidfd_open, process, 0);
    if (fd == -1)
        return true;
    struct pollfd one = { fd, POLLIN, 0 };
    if (control->leaving == (uint32_t)process) {
        __atomic_store_n(&control->leaving_seen, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &control->leaving_seen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    bool yes = poll(&one, 1, limit) == 1;
    close(fd);
    return yes;
}

/* Whoever died unasked loses the turn. */
static void bury(void)
{
    bool had_turn = false;
    for (int i = 0; i < ACTORS; i++) {
        struct actor *actor = &control->actors[i];
        if (actor->alive && actor->tgid && ended(actor->tgid, 0)) {
            had_turn |= control->turn < control->steps && program[control->turn].actor == i;
            out(" actor %d died\n", i);
            actor->alive = 0;
        }
    }
    if (had_turn)
        advance();
}

/* Until the last step is done. A call that blocks for ever is interrupted. */
static void watch(void)
{
    uint32_t before = UINT32_MAX;
    int standing = 0;
    struct timespec pause = { 0, 20000000 };
    for (;;) {
        uint32_t turn = __atomic_load_n(&control->turn, __ATOMIC_SEQ_CST);
        uint32_t leaving = __atomic_load_n(&control->leaving, __ATOMIC_SEQ_CST);
        if (turn >= control->steps)
            return;
        if (leaving) {
            while (!ended((pid_t)leaving, 1000))
                ;
            control->leaving = control->leaving_seen = 0;
            advance();
            continue;
        }
        standing = turn == before ? standing + 1 : 0;
        before = turn;
        if (standing >= 3)
            bury();
        struct actor *due = &control->actors[program[turn].actor];
        if (standing >= (due->busy ? 25 : 100))
            syscall(SYS_tgkill, due->tgid, due->tid, SIGUSR1);
        /* Turns are waited for by time, ends of processes by the futex. */
        syscall(SYS_futex, &control->leaving, FUTEX_WAIT, 0, &pause, NULL, 0);
    }
}

static void sockets(void)
{
    for (int i = 0; i < ACTORS; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == -1)
            fail("socketpair");
        for (int end = 0; end < 2; end++) {
            if (dup2(ends[end], FIRST_SOCKET + 2 * i + end) == -1)
                fail("dup2");
            close(ends[end]);
        }
    }
}

/* Whether a server of libfuse still has a removed file below `path` open: it has a name until the RELEASE
 * of the last process, which nobody waits for, was carried out. */
static bool has_hidden(const char *path)
{
    DIR *directory = opendir(path);
    bool found = false;
    for (struct dirent *entry; directory != NULL && !found && (entry = readdir(directory)) != NULL;) {
        char below[PATH_MAX];
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (strncmp(entry->d_name, ".fuse_hidden", 12) == 0)
            found = true;
        else if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            found = has_hidden(below);
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Waits for that, 5 s at most. */
static void settle(const char *path)
{
    for (int i = 0; i < 500 && has_hidden(path); i++)
        poll(NULL, 0, 10);
}

/* /dev/null for reading and writing alone: whoever else has it is not to find another mode or owner
 * when a program of root's has changed those of its standard input. */
static int open_null(void)
{
    struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY };
    char path[64] = "/dev/null";
    /* Others than root may not do this, and change nothing of it. */
    int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) == 0)
        snprintf(path, sizeof path, "/proc/self/fd/%d", tree);
    int null = open(path, O_RDWR | O_CLOEXEC);
    if (null == -1)
        fail(path);
    if (tree >= 0)
        close(tree);
    return null;
}

/* `control` was made by the caller, with its options in place. */
static int run(void)
{
    struct rlimit open_files = { 1024, 1024 };
    control->steps = read_program();
    control->began = time(NULL);
    setrlimit(RLIMIT_NOFILE, &open_files);
    syscall(SYS_close_range, 3, FIRST_SOCKET - 1, 0);
    for (int fd = 0; fd < 3; fd++)
        if (fd != 2)
            dup2(open_null(), fd);
    syscall(SYS_close_range, 3, FIRST_SOCKET - 1, 0);
    sockets();
    umask(022);
    handle_signals();
    handle_faults();
    memset(slots, -1, sizeof slots);
    if (chdir(mount_path) == -1)
        fail(mount_path);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    control->actors[0].alive = 1;
    if (fork() == 0)
        take_turns(0);
    watch();
    for (int i = 0; i < ACTORS; i++)
        if (control->actors[i].alive && control->actors[i].busy)
            kill(control->actors[i].tgid, SIGKILL);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    if (chdir("/") == -1)
        fail("/");
    settle(mount_path);
    dump(mount_path);
    dump(outside_path);
    return 0;
}

/* The tree appears at the mount's path, in a namespace of this process: by right, or in a user
 * namespace. */
static void bind_tree(const char *tree, const char *target, long user)
{
    if (unshare(CLONE_NEWNS) == -1) {
        char map[64];
        uid_t uid = getuid();
        gid_t gid = getgid();
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == -1)
            fail("unshare");
        const char *files[] = { "/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map" };
        for (int i = 0; i < 3; i++) {
            int fd = open(files[i], O_WRONLY);
            int length = i == 0 ? snprintf(map, sizeof map, "deny") : snprintf(map, sizeof map, "%u %u 1", i == 1 ? uid : gid, i == 1 ? uid : gid);
            if (write(fd, map, (size_t)length) != length)
                fail(files[i]);
            close(fd);
        }
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 || mount(tree, target, NULL, MS_BIND, NULL) == -1)
        fail("mount");
    if (user >= 0 && (setgroups(0, NULL) == -1 || setgid((gid_t)user) == -1 || setuid((uid_t)user) == -1))
        fail("setuid");
}

int main(int argc, char **argv)
{
    /* By way of a script: the interpreter's word and the script's path come first. */
    if (argc > 3 && !strcmp(argv[1], "script")) {
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    executor_path = argv[0];
    if (argc == 3 && !strcmp(argv[1], "dump")) {
        control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        dump(argv[2]);
        return fwrite(control->output, 1, control->used, stdout) != control->used;
    }
    if (argc > 5 && !strcmp(argv[1], "native")) {
        bind_tree(argv[2], argv[3], strtol(argv[4], NULL, 10));
        execv(argv[5], argv + 5);
        fail(argv[5]);
    }
    if (argc < 6)
        return 2;
    control_path = argv[2];
    program_path = argv[3];
    mount_path = argv[4];
    outside_path = argv[5];
    map_control();
    if (!strcmp(argv[1], "run")) {
        /* CONTROL PROGRAM MOUNT OUTSIDE TICKS IDENTITY PERTURBED */
        if (argc < 9)
            return 2;
        control->ticks = (uint32_t)strtoul(argv[6], NULL, 10);
        control->show_identity = (uint32_t)strtoul(argv[7], NULL, 10);
        control->perturbed = (uint32_t)strtol(argv[8], NULL, 10);
        return run();
    }
    read_program();
    handle_signals();
    handle_faults();
    if (!strcmp(argv[1], "resume"))
        resume((int)strtol(argv[6], NULL, 10));
    if (!strcmp(argv[1], "child"))
        child_step((int)strtol(argv[6], NULL, 10), (int)strtol(argv[7], NULL, 10));
    return 2;
}
