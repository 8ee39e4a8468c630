/* Options of a command line. */
#ifndef CULVERT_FUSE_OPT_H
#define CULVERT_FUSE_OPT_H

#include "fuse_log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an option looks like, and where its value goes: `value` at `offset` of the caller's data, or,
 * with offset -1U, `value` as the key that the caller's function gets. */
struct fuse_opt {
    const char *templ;
    unsigned long offset;
    int value;
};

#define FUSE_OPT_KEY(templ, key) { templ, -1U, key }
#define FUSE_OPT_END { NULL, 0, 0 }

/* Words of a command line. `allocated` says whether they were allocated. */
struct fuse_args {
    int argc;
    char **argv;
    int allocated;
};

#define FUSE_ARGS_INIT(argc, argv) { argc, argv, 0 }

#define FUSE_OPT_KEY_OPT -1
#define FUSE_OPT_KEY_NONOPT -2
#define FUSE_OPT_KEY_KEEP -3
#define FUSE_OPT_KEY_DISCARD -4

/* -1: an error, 0: the word goes, 1: it stays. */
typedef int (*fuse_opt_proc_t)(void *data, const char *arg, int key, struct fuse_args *outargs);

/* Version 3 frees the string that a `%s` replaces; version 2 lets it be. */
#if defined(FUSE_USE_VERSION) && FUSE_USE_VERSION >= 30
int fuse_opt_parse(struct fuse_args *args, void *data, const struct fuse_opt opts[],
                   fuse_opt_proc_t proc) CULVERT_FUSE("opt_parse_3");
#else
int fuse_opt_parse(struct fuse_args *args, void *data, const struct fuse_opt opts[],
                   fuse_opt_proc_t proc) CULVERT_FUSE("opt_parse_2");
#endif
int fuse_opt_add_opt(char **opts, const char *opt) CULVERT_FUSE("opt_add_opt");
int fuse_opt_add_opt_escaped(char **opts, const char *opt) CULVERT_FUSE("opt_add_opt_escaped");
int fuse_opt_add_arg(struct fuse_args *args, const char *arg) CULVERT_FUSE("opt_add_arg");
int fuse_opt_insert_arg(struct fuse_args *args, int pos, const char *arg)
    CULVERT_FUSE("opt_insert_arg");
void fuse_opt_free_args(struct fuse_args *args) CULVERT_FUSE("opt_free_args");
int fuse_opt_match(const struct fuse_opt opts[], const char *opt) CULVERT_FUSE("opt_match");

#ifdef __cplusplus
}
#endif
#endif
