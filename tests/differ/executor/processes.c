/* Actors: who has the turn, and how actors come and go. */
#include "executor.h"
#include "arguments.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

_Thread_local int self;
_Thread_local int now;
int slots[SLOTS];

extern char **environ;

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static void wake(uint32_t *word)
{
    futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

/* The step is over: the turn goes to the next step whose actor exists. */
void advance(void)
{
    if (control->ticks)
        wait_for_tick();
    uint32_t next = control->turn + 1;
    for (; next < control->steps && !control->actors[program[next].actor].alive; next++)
        out("%u absent\n", next);
    __atomic_store_n(&control->turn, next, __ATOMIC_SEQ_CST);
    wake(&control->turn);
    /* The first process sleeps on the other word. */
    if (next >= control->steps)
        wake(&control->leaving);
}

void take_turns(int actor)
{
    self = actor;
    struct actor *me = &control->actors[actor];
    me->tgid = getpid();
    me->tid = (pid_t)syscall(SYS_gettid);
    for (;;) {
        uint32_t turn = __atomic_load_n(&control->turn, __ATOMIC_SEQ_CST);
        if (turn >= control->steps)
            _exit(0);
        if (program[turn].actor != actor) {
            futex(&control->turn, FUTEX_WAIT, turn, NULL);
            continue;
        }
        out("%u", turn);
        carry_out(&program[turn], 0);
        out("\n");
        advance();
    }
}

/* The actor whose thread leads this process; threads end with it. */
int lead(void)
{
    for (int i = 0; i < ACTORS; i++)
        if (control->actors[i].alive && control->actors[i].tid == getpid())
            return i;
    return self;
}

static void *thread_of(void *actor)
{
    take_turns((int)(intptr_t)actor);
}

/* Marks an actor as there; its process or thread fills in its numbers itself, and before this actor
 * goes on. */
static void begin_actor(int actor, long made)
{
    if (made < 0)
        return;
    struct actor *new = &control->actors[actor];
    while (!__atomic_load_n(&new->tid, __ATOMIC_SEQ_CST))
        sched_yield();
    new->alive = 1;
}

static void new_actor(struct step *s, int at)
{
    int actor = (int)N(1);
    if (actor < 0 || actor >= ACTORS || control->actors[actor].alive) {
        out(" taken");
        return;
    }
    memset(&control->actors[actor], 0, sizeof control->actors[actor]);
    long made = -1;
    if (IS("thread", 1)) {
        pthread_t thread;
        made = pthread_create(&thread, NULL, thread_of, (void *)(intptr_t)actor) ? -1 : 0;
    } else {
        made = IS("fork", 1)         ? fork()
             : IS("clonefiles", 1)   ? syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL)
             : IS("clonefs", 1)      ? syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL)
                                     : -1;
        if (made == 0)
            take_turns(actor);
    }
    begin_actor(actor, made);
    outcome(made < 0 ? -1 : 0);
}

/* All actors of this process but this one end with an exec or exit. */
static void end_threads(bool all)
{
    pid_t mine = getpid();
    for (int i = 0; i < ACTORS; i++)
        if (control->actors[i].tgid == mine && (all || i != self))
            control->actors[i].alive = 0;
}

static void leave(void)
{
    out(" bye");
    if (control->actors[self].tid != control->actors[self].tgid) {
        control->actors[self].alive = 0;
        out("\n");
        advance();
        syscall(SYS_exit, 0);
    }
    /* Descriptors and locks go with the process: the turn goes on when it is gone, which the first
     * process sees. */
    end_threads(true);
    out("\n");
    __atomic_store_n(&control->leaving, (uint32_t)getpid(), __ATOMIC_SEQ_CST);
    wake(&control->leaving);
    while (!__atomic_load_n(&control->leaving_seen, __ATOMIC_SEQ_CST))
        futex(&control->leaving_seen, FUTEX_WAIT, 0, NULL);
    _exit(0);
}

static char **words_for(const char *mode, int number_of_step)
{
    static char actor[16], step[16];
    static char *words[9];
    snprintf(actor, sizeof actor, "%d", self);
    snprintf(step, sizeof step, "%d", number_of_step);
    char *all[] = { (char *)executor_path, (char *)mode, (char *)control_path, (char *)program_path, (char *)mount_path,
                    (char *)outside_path, actor, step, NULL };
    memcpy(words, all, sizeof all);
    memcpy(control->carried, slots, sizeof slots);
    return words;
}

/* This actor goes on in a new image: started directly, or by way of a script whose interpreter is
 * the executor. */
static void execute(struct step *s, int at)
{
    uint32_t alive[ACTORS];
    for (int i = 0; i < ACTORS; i++)
        alive[i] = control->actors[i].alive;
    char **words = words_for("resume", s->number);
    end_threads(false);
    if (!strcmp(W(1), "script")) {
        char script[PATH_MAX];
        snprintf(script, sizeof script, "%s.sh", executor_path);
        execve(script, words, environ);
    } else {
        execve(executor_path, words, environ);
    }
    for (int i = 0; i < ACTORS; i++)
        control->actors[i].alive = alive[i];
    result(-1);
}

/* The new image has come up: the result of exec is that it is here. */
void resume(int actor)
{
    memcpy(slots, control->carried, sizeof slots);
    out(" ok");
    out("\n");
    advance();
    take_turns(actor);
}

/* One operation in a child that then ends; `at` is the operation's word. */
void child_step(int actor, int step)
{
    self = actor;
    memcpy(slots, control->carried, sizeof slots);
    struct step *s = &program[step];
    carry_out(s, !strcmp(s->word[0], "spawn") ? 2 : 1);
    _exit(0);
}

static void show_end(pid_t child)
{
    int status = 0;
    if (child < 0) {
        out(" -spawn");
        return;
    }
    while (waitpid(child, &status, 0) == -1 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        out(" signal=%d", WTERMSIG(status));
    else
        out(" exit=%d", WEXITSTATUS(status));
}

/* `dup2.a.b,close.c,open.5./path`: what posix_spawn does in the child. */
static void file_actions(const char *list, posix_spawn_file_actions_t *actions)
{
    char *copy = strdup(list), *rest = copy;
    for (char *one; (one = strsep(&rest, ","));) {
        char *kind = strsep(&one, "."), *first = one ? strsep(&one, ".") : NULL, *second = one;
        if (!first)
            continue;
        if (!strcmp(kind, "dup2") && second && descriptor(first) >= 0)
            posix_spawn_file_actions_adddup2(actions, descriptor(first), descriptor(second));
        else if (!strcmp(kind, "close") && descriptor(first) >= 0)
            posix_spawn_file_actions_addclose(actions, descriptor(first));
        else if (!strcmp(kind, "open") && second)
            posix_spawn_file_actions_addopen(actions, descriptor(first), path(second), O_RDWR | O_CREAT, 0644);
    }
}

static bool children(struct step *s, int at)
{
    if (IS("vfork", 1) && at == 0) {
        /* Memory is shared, descriptors are not: what the operation binds is the child's. */
        int kept[SLOTS];
        memcpy(kept, slots, sizeof kept);
        pid_t child = vfork();
        if (child == 0) {
            carry_out(s, 1);
            _exit(0);
        }
        memcpy(slots, kept, sizeof kept);
        show_end(child);
    } else if (IS("vforkexec", 1) && at == 0) {
        char **words = words_for("child", s->number);
        pid_t child = vfork();
        if (child == 0) {
            execve(executor_path, words, environ);
            _exit(99);
        }
        show_end(child);
    } else if (IS("spawn", 2) && at == 0) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        file_actions(W(1), &actions);
        pid_t child = -1;
        int error = posix_spawn(&child, executor_path, &actions, NULL, words_for("child", s->number), environ);
        if (error) {
            errno = error;
            result(-1);
        } else {
            show_end(child);
        }
    } else if (IS("shell", 1)) {
        char line[4096] = "";
        for (int i = at + 1; i < s->words; i++) {
            char *word = path(s->word[i]);
            strncat(line, word ? word : "", sizeof line - strlen(line) - 2);
            strcat(line, " ");
        }
        pid_t child = -1;
        char *words[] = { "sh", "-c", line, NULL };
        posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ);
        show_end(child);
    } else {
        return false;
    }
    return true;
}

/* An operation that may block: the turn goes on, its result is shown by `finish`. */
static void start(struct step *s, int at)
{
    struct actor *me = &control->actors[self];
    out(" started\n");
    me->deferred[0] = 0;
    __atomic_store_n(&me->busy, 1, __ATOMIC_SEQ_CST);
    advance();
    deferred = me->deferred;
    carry_out(s, at + 1);
    deferred = NULL;
    __atomic_store_n(&me->busy, 0, __ATOMIC_SEQ_CST);
    take_turns(self);
}

static bool asleep(const struct actor *actor)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/%d/task/%d/stat", actor->tgid, actor->tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return true;
    read(fd, text, sizeof text - 1);
    close(fd);
    char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'S';
}

/* Until the actor's call is over, or seen asleep so often that it waits. */
static void await_actor(const struct actor *actor)
{
    struct timespec pause = { 0, 1000000 };
    for (int seen = 0; seen < 4 && __atomic_load_n(&actor->busy, __ATOMIC_SEQ_CST);) {
        seen = asleep(actor) ? seen + 1 : 0;
        nanosleep(&pause, NULL);
    }
}

static void count_signal(int signal)
{
    (void)signal;
    if (control)
        control->actors[self].signals++;
}

/* SIGUSR1 ends blocking calls, SIGUSR2 lets them go on. */
void handle_signals(void)
{
    struct sigaction action = { .sa_handler = count_signal };
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

bool process_operation(struct step *s, int at)
{
    if (IS("fork", 1) || IS("thread", 1) || IS("clonefiles", 1) || IS("clonefs", 1)) {
        new_actor(s, at);
    } else if (IS("exec", 1)) {
        execute(s, at);
    } else if (IS("exit", 0)) {
        leave();
    } else if (IS("start", 1) && at == 0) {
        start(s, at);
    } else if (IS("finish", 0)) {
        struct actor *me = &control->actors[self];
        out("%s", me->deferred[0] ? me->deferred : " nothing");
        out(" signals=%u", me->signals);
        me->deferred[0] = 0;
    } else if (IS("await", 1)) {
        await_actor(&control->actors[N(1)]);
    } else if (IS("signal", 2)) {
        struct actor *to = &control->actors[N(1)];
        if (to->alive)
            outcome(syscall(SYS_tgkill, to->tgid, to->tid, !strcmp(W(2), "restart") ? SIGUSR2 : SIGUSR1));
    } else {
        return children(s, at);
    }
    return true;
}
