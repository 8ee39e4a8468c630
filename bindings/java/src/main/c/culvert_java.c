/* A driver whose functions are Java's: it starts a virtual machine in the host, and lets
 * org.culvert.Host fill in the table of culvert/driver.h.
 *
 * Options: jdk (a JDK's directory), jvm (words for the virtual machine, separated by spaces); the
 * others are org.culvert.Host's and the file system's.
 */
#define _GNU_SOURCE
#include "culvert/driver.h"
#include <dirent.h>
#include <dlfcn.h>
#include <jni.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first release whose java.lang.foreign is final. */
enum { OLDEST = 22, WORDS = 64 };
#define JVMS "/usr/lib/jvm"
#define JVM_LIBRARY "lib/server/libjvm.so"

struct task {
    const struct culvert_mount *mount;
    const char *jdk;
    char *why;
    size_t size;
    struct culvert_driver *driver;
};

static int fail(struct task *task, const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(task->why, task->size, format, words);
    va_end(words);
    return -1;
}

/* The value of option `name`; null: it is not given. */
static const char *option(const struct culvert_mount *mount, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < mount->option_count; i++) {
        const char *word = mount->options[i];
        if (!strncmp(word, name, length) && word[length] == '=')
            return word + length + 1;
    }
    return NULL;
}

/* The release of the JDK in `directory`, as its file `release` says; 0: there is none. */
static int release_of(const char *directory) {
    char path[PATH_MAX], line[256];
    int found = 0;
    snprintf(path, sizeof path, "%s/" JVM_LIBRARY, directory);
    if (access(path, R_OK))
        return 0;
    snprintf(path, sizeof path, "%s/release", directory);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        sscanf(line, "JAVA_VERSION=\"%d", &found);
    if (file)
        fclose(file);
    return found;
}

/* The JDK to use, in `best`: the one that is named, JAVA_HOME's if it is new enough, or the newest
 * of the system's. */
static int find_jdk(struct task *task, char best[PATH_MAX]) {
    const char *home = getenv("JAVA_HOME");
    int release = 0;
    if (task->jdk) {
        snprintf(best, PATH_MAX, "%s", task->jdk);
        release = release_of(best);
        if (!release)
            return fail(task, "jdk=%s: there is no %s", best, JVM_LIBRARY);
        if (release < OLDEST)
            return fail(task, "jdk=%s is release %d; give one of release %d or later", best,
                        release, OLDEST);
        return 0;
    }
    if (home && release_of(home) >= OLDEST) {
        snprintf(best, PATH_MAX, "%s", home);
        return 0;
    }
    DIR *directory = opendir(JVMS);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, JVMS "/%s", entry->d_name);
        int found = release_of(path);
        if (found > release) {
            release = found;
            snprintf(best, PATH_MAX, "%s", path);
        }
    }
    if (directory)
        closedir(directory);
    if (release < OLDEST)
        return fail(task, "no JDK of release %d or later in JAVA_HOME or " JVMS
                          "; install one, or name it with jdk=DIRECTORY", OLDEST);
    return 0;
}

/* What the exception that is pending says, its trace on standard error. */
static int thrown(struct task *task, JNIEnv *env, const char *what) {
    jthrowable error = (*env)->ExceptionOccurred(env);
    if (error)
        (*env)->ExceptionDescribe(env);
    (*env)->ExceptionClear(env);
    return fail(task, "%s", what);
}

/* Root executes only what nobody else may write. */
static int check_closed(struct task *task, const char *place) {
    struct stat found;
    if (!geteuid() && !stat(place, &found) && (found.st_uid || found.st_mode & 022))
        return fail(task, "%s: others than root may write it, and root executes no such code",
                    place);
    return 0;
}

/* Whether `flags` or the virtual machine's environment say what collects garbage, or how much new
 * memory there is. */
static int chooses_memory(const char *flags) {
    const char *words[] = {flags, getenv("JAVA_TOOL_OPTIONS"), getenv("_JAVA_OPTIONS")};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] && (strstr(words[i], "GC") || strstr(words[i], "-Xmn") ||
                         strstr(words[i], "NewSize")))
            return 1;
    return 0;
}

static int begin(struct task *task) {
    static char jar[PATH_MAX];
    char jdk[PATH_MAX], path[PATH_MAX + 32], *class_path, *more = NULL;
    const char *flags = option(task->mount, "jvm");
    JavaVMOption words[WORDS] = {0};
    Dl_info own;
    int count = 0;

    if (find_jdk(task, jdk))
        return -1;
    if (!dladdr((void *)culvert_driver_for, &own) || !realpath(own.dli_fname, jar))
        return fail(task, "cannot tell where culvert.jar is");
    char *name = strrchr(jar, '/');
    snprintf(name, sizeof jar - (name - jar), "/culvert.jar");
    if (access(jar, R_OK))
        return fail(task, "%s is missing; install it by scripts/bindings", jar);
    snprintf(path, sizeof path, "%s/" JVM_LIBRARY, jdk);
    if (check_closed(task, jar) || check_closed(task, path))
        return -1;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return fail(task, "%s", dlerror());
    jint (*create)(JavaVM **, void **, void *) = dlsym(library, "JNI_CreateJavaVM");
    if (!create)
        return fail(task, "%s has no JNI_CreateJavaVM", path);
    if (asprintf(&class_path, "-Djava.class.path=%s", jar) < 0)
        return fail(task, "no memory");
    words[count++].optionString = class_path;
    words[count++].optionString = "--enable-native-access=ALL-UNNAMED";
    /* Signals are the host's. */
    words[count++].optionString = "-Xrs";
    words[count++].optionString = "-XX:-UsePerfData";
    words[count++].optionString = "-XX:+ErrorFileToStderr";
    /* Objects of calls live as long as the call: in memory that is used again soon they cost no
     * page fault and lie in the processor's cache. */
    if (!chooses_memory(flags)) {
        words[count++].optionString = "-XX:+UseSerialGC";
        words[count++].optionString = "-Xmn8m";
    }
    if (flags && !(more = strdup(flags)))
        return fail(task, "no memory");
    for (char *word = more ? strtok(more, " ") : NULL; word; word = strtok(NULL, " ")) {
        if (count == WORDS)
            return fail(task, "jvm: more than %d words", WORDS - 7);
        words[count++].optionString = word;
    }
    JavaVMInitArgs arguments = {JNI_VERSION_10, count, words, JNI_FALSE};
    JavaVM *machine;
    JNIEnv *env;
    if (create(&machine, (void **)&env, &arguments) != JNI_OK)
        return fail(task, "the virtual machine of %s does not start%s%s", jdk,
                    flags ? " with jvm=" : "", flags ? flags : "");
    int result = -1;
    jclass host = (*env)->FindClass(env, "org/culvert/Host");
    jmethodID method = host ? (*env)->GetStaticMethodID(env, host, "begin", "(JJJJ)Z") : NULL;
    if (!method)
        thrown(task, env, "culvert.jar does not fit; install it anew by scripts/bindings");
    else if ((*env)->CallStaticBooleanMethod(env, host, method, (jlong)task->driver,
                                             (jlong)task->mount, (jlong)task->why,
                                             (jlong)task->size))
        result = 0;
    else if ((*env)->ExceptionCheck(env))
        thrown(task, env, "the file system's class cannot be used");
    (*machine)->DetachCurrentThread(machine);
    return result;
}

static void *begun(void *task) {
    return begin(task) ? NULL : task;
}

const struct culvert_driver *culvert_driver_for(const struct culvert_mount *mount) {
    static struct culvert_driver driver = {.version = CULVERT_DRIVER_VERSION,
                                           .size = sizeof driver};
    struct task task = {mount, option(mount, "jdk"), mount->reason, mount->reason_size, &driver};
    pthread_attr_t attributes;
    pthread_t thread;
    void *done = NULL;

    /* Not on the first thread, whose stack grows and has no guard that Java could use. */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    if (pthread_create(&thread, &attributes, begun, &task))
        fail(&task, "no thread for the virtual machine");
    else
        pthread_join(thread, &done);
    pthread_attr_destroy(&attributes);
    return done ? &driver : NULL;
}
