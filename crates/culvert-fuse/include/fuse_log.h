/* Messages of a file system. */
#ifndef CULVERT_FUSE_LOG_H
#define CULVERT_FUSE_LOG_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All functions have names of their own in the library: a file system that was built for another
 * implementation finds none of them, and so never gets a structure that it does not know. */
#define CULVERT_FUSE(name) __asm__("culvert_fuse_" name)

enum fuse_log_level {
    FUSE_LOG_EMERG,
    FUSE_LOG_ALERT,
    FUSE_LOG_CRIT,
    FUSE_LOG_ERR,
    FUSE_LOG_WARNING,
    FUSE_LOG_NOTICE,
    FUSE_LOG_INFO,
    FUSE_LOG_DEBUG
};

typedef void (*fuse_log_func_t)(enum fuse_log_level level, const char *format, va_list arguments);

void fuse_set_log_func(fuse_log_func_t function) CULVERT_FUSE("set_log_func");
void culvert_fuse_vlog(enum fuse_log_level level, const char *format, va_list arguments);

__attribute__((format(printf, 2, 3), unused)) static void
fuse_log(enum fuse_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    culvert_fuse_vlog(level, format, arguments);
    va_end(arguments);
}

#ifdef __cplusplus
}
#endif
#endif
