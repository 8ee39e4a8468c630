/* The executor: carries out a program, step by step, with real system calls. See ../src/lib.rs for
 * the format of programs. */
#ifndef EXECUTOR_H
#define EXECUTOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    ACTORS = 8,
    SLOTS = 26,
    WORDS = 20,
    IDENTITIES = 512,
    TOUCHED = 512,
    /* Descriptors of the executor itself: a socket pair for each actor. Programs use small numbers.
     * */
    FIRST_SOCKET = 600,
};

/* One line of a program, cut at blanks. */
struct step {
    int number;
    int actor;
    int words;
    char *word[WORDS];
};

struct actor {
    uint32_t alive;
    /* In a call begun by `start`: the actor has given the turn away and will not take it before the
     * call ends. */
    uint32_t busy;
    pid_t tgid;
    pid_t tid;
    /* Signals handled. */
    uint32_t signals;
    char deferred[4096];
};

/* What all processes share: mapped from a file outside of every mount, found again after exec by
 * its path. */
struct control {
    /* Number of the next step; a futex. This field and the next two are read by the side that
     * compares. */
    uint32_t turn;
    uint32_t used;
    char output[4 << 20];
    uint32_t steps;
    /* A process that is about to end, to be watched until it has; a futex. */
    uint32_t leaving;
    uint32_t leaving_seen;
    /* Whether a clock tick passes after every step, so that times can be compared. */
    uint32_t ticks;
    uint32_t show_identity;
    /* The step whose result is wrong on purpose, which proves that differences are found; none:
     * UINT32_MAX. */
    uint32_t perturbed;
    int64_t began;
    struct actor actors[ACTORS];
    /* Slots of a process that is in exec. */
    int32_t carried[SLOTS];
    uint32_t identities;
    struct {
        uint64_t device, inode;
        int64_t times[3][2];
        bool timed;
    } identity[IDENTITIES];
    /* Base names that a step has made or removed, with that step's number. */
    uint32_t touched;
    struct {
        uint32_t step;
        char name[64];
    } touch[TOUCHED];
};

extern struct control *control;
extern struct step *program;
extern const char *executor_path, *control_path, *program_path, *mount_path, *outside_path;
/* Descriptors of this process by letter. */
extern int slots[SLOTS];
/* The actor that this thread is. */
extern _Thread_local int self;
/* Number of the step that is carried out. */
extern _Thread_local int now;
/* Where output goes while another actor has the turn. */
extern _Thread_local char *deferred;

/* words.c: what the words of a step mean. */
long number(const char *word);
int descriptor(const char *word);
/* NULL for {null}, an unmapped address for {bad}; else allocated. */
char *path(const char *word);
/* Shows a new descriptor, or why there is none, and puts it into a slot. */
void new_descriptor(const char *word, long fd);
/* A buffer of `size` bytes as the optional word says: `bad`, `edge:N` (only N bytes are
 * accessible), else plain. */
char *buffer(long size, const char *kind);
const char *word_or(struct step *s, int index, const char *otherwise);

/* result.c: what a step prints. */
void out(const char *format, ...) __attribute__((format(printf, 1, 2)));
void out_bytes(const char *bytes, long size);
void out_name(const char *name);
/* The number, or the name of errno. */
long result(long value);
/* Only whether it worked. */
long outcome(long value);
void out_stat(const struct statx *stat);
void out_times(const struct statx *stat);
int identity_of(uint64_t device, uint64_t inode);
void touch(const char *path);
void wait_for_tick(void);

/* operations.c */
void carry_out(struct step *s, int first_word);

/* processes.c */
void take_turns(int actor) __attribute__((noreturn));
void advance(void);
bool process_operation(struct step *s, int at);
int lead(void);
void handle_signals(void);
void child_step(int actor, int step);
void resume(int actor) __attribute__((noreturn));

/* One family of operations each: true if the word was theirs. */
bool file_operation(struct step *s, int at);
bool transfer_operation(struct step *s, int at);
bool descriptor_operation(struct step *s, int at);
bool name_operation(struct step *s, int at);
bool attribute_operation(struct step *s, int at);
bool directory_operation(struct step *s, int at);
bool mapping_operation(struct step *s, int at);

/* mappings.c: faults at mapped addresses are results, not ends. */
void handle_faults(void);

/* directories.c: everything below `root`, as text. */
void dump(const char *root);

#endif
