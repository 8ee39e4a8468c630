/* landlocked PATH... -- PROGRAM [ARGUMENT]...: executes PROGRAM in a Landlock domain that may
 * read and execute what is at the paths and below, and nothing else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words) {
    const __u64 reads = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                        LANDLOCK_ACCESS_FS_READ_DIR;
    struct landlock_ruleset_attr all = {.handled_access_fs = reads};
    int rules = syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0) {
        puts("not tested: no Landlock");
        return 0;
    }
    int at = 1;
    for (; at < count && strcmp(words[at], "--") != 0; at++) {
        struct landlock_path_beneath_attr rule = {
            .allowed_access = reads,
            .parent_fd = open(words[at], O_PATH | O_CLOEXEC),
        };
        int added = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        if (added != 0) { /* A file has no entries to read. */
            rule.allowed_access &= ~LANDLOCK_ACCESS_FS_READ_DIR;
            added = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        }
        if (added != 0) {
            perror(words[at]);
            return 1;
        }
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
        perror("landlock_restrict_self");
        return 1;
    }
    execv(words[at + 1], words + at + 1);
    perror(words[at + 1]);
    return 127;
}
