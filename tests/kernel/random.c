/*
 * Random system calls on two directories, inside a guest: whatever is asked of the one must be
 * answered as by the other, also when the kernel has forgotten names and attributes, by another
 * user, by another name, or of a file that is open.
 *
 *     random FIRST SECOND SEED CALLS
 *
 * The last line is "N passed, N failed": 1 for a whole run.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OPEN 4
#define NOBODY 65534
#define LABEL "security.selinux"

static unsigned int seed;
static int held[2][OPEN] = { { -1, -1, -1, -1 }, { -1, -1, -1, -1 } };
/* What a call has answered besides its result. */
static char answer[4096];

static unsigned int drawn(unsigned int below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % below;
}

static void add(const char *format, unsigned long a, unsigned long b, unsigned long c)
{
	size_t at = strlen(answer);

	snprintf(answer + at, sizeof(answer) - at, format, a, b, c);
}

static void add_stat(const struct stat *st)
{
	add(" mode %lo links %lu size %lu", st->st_mode, S_ISDIR(st->st_mode) ? 0 : st->st_nlink,
	    S_ISDIR(st->st_mode) ? 0 : st->st_size);
	add(" uid %lu gid %lu%.0lu", st->st_uid, st->st_gid, 0);
}

static int compare(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

static long list(const char *path)
{
	char *names[64];
	struct dirent *entry;
	DIR *dir = opendir(path);
	int count = 0, i;

	if (!dir)
		return -1;
	while (count < 64 && (entry = readdir(dir)))
		names[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof(*names), compare);
	for (i = 0; i < count; i++) {
		strncat(answer, " ", sizeof(answer) - strlen(answer) - 1);
		strncat(answer, names[i], sizeof(answer) - strlen(answer) - 1);
		free(names[i]);
	}
	return count;
}

struct call {
	unsigned int what, slot, user, number;
	const char *path, *other;
};

/* Below the working directory; -1 and errno, as the system call. */
static long done(const struct call *call, int side)
{
	char bytes[512];
	struct stat st;
	int *fd = &held[side][call->slot];
	long result = -1;

	switch (call->what) {
	case 0: case 1: case 2: case 3:
		result = lstat(call->path, &st);
		if (!result)
			add_stat(&st);
		return result;
	case 4:
		result = stat(call->path, &st);
		if (!result)
			add_stat(&st);
		return result;
	case 5: case 6:
		result = open(call->path, O_WRONLY | O_CREAT | (call->number & 1 ? O_EXCL : 0), 0644);
		if (result < 0)
			return result;
		memset(bytes, 'x', sizeof(bytes));
		st.st_size = write(result, bytes, call->number % sizeof(bytes));
		close(result);
		return st.st_size;
	case 7:
		result = open(call->path, O_RDONLY);
		if (result < 0)
			return result;
		st.st_size = read(result, bytes, sizeof(bytes));
		close(result);
		return st.st_size;
	case 8:
		return unlink(call->path);
	case 9: case 10:
		return rename(call->path, call->other);
	case 11:
		return syscall(SYS_renameat2, AT_FDCWD, call->path, AT_FDCWD, call->other,
			       call->number % 2 + 1);
	case 12:
		return link(call->path, call->other);
	case 13:
		return symlink(call->other, call->path);
	case 14:
		memset(bytes, 0, sizeof(bytes));
		result = readlink(call->path, bytes, sizeof(bytes) - 1);
		strcat(answer, bytes);
		return result;
	case 15:
		return mkdir(call->path, 0755);
	case 16:
		return rmdir(call->path);
	case 17:
		return chmod(call->path, call->number % 3 ? 0755 : call->number & 0777);
	case 18:
		return truncate(call->path, call->number);
	case 19:
		return setxattr(call->path, LABEL, "abcdefgh", call->number % 8 + 1, 0);
	case 20: case 21: case 22:
		memset(bytes, 0, sizeof(bytes));
		result = lgetxattr(call->path, call->number & 1 ? LABEL : "security.capability",
				   bytes, call->number & 6 ? sizeof(bytes) : call->number & 8 ? 3 : 0);
		strcat(answer, call->number & 6 ? bytes : "");
		return result;
	case 23:
		return removexattr(call->path, LABEL);
	case 24:
		return llistxattr(call->path, bytes, sizeof(bytes));
	case 25:
		return list(call->path);
	case 26:
		if (*fd >= 0)
			return close(*fd), *fd = -1, 0;
		*fd = open(call->path, O_RDWR);
		return *fd < 0 ? -1 : 0;
	case 27:
		memset(bytes, 'y', sizeof(bytes));
		return pwrite(*fd, bytes, call->number % 300, call->number % 700);
	case 28:
		result = fstat(*fd, &st);
		if (!result)
			add_stat(&st);
		return result;
	case 29:
		return ftruncate(*fd, call->number);
	case 30:
		return chown(call->path, call->number & 1 ? NOBODY : 0, -1);
	default:
		return access(call->path, call->number & 7);
	}
}

int main(int argc, char **argv)
{
	static const char *const paths[] = {
		"a", "b", "c", "d", "e", "d/a", "d/b", "d/c", "e/a", "e/b", "e/c", "d/e", "d/e/a", ".",
	};
	const int count = sizeof(paths) / sizeof(*paths);
	static char first[sizeof(answer)];
	int calls, i, side, caches = open("/proc/sys/vm/drop_caches", O_WRONLY), roots[2];
	long results[2], errors[2];

	if (argc != 5)
		return 2;
	umask(022);
	seed = atoi(argv[3]);
	calls = atoi(argv[4]);
	for (side = 0; side < 2; side++)
		roots[side] = open(argv[side + 1], O_RDONLY | O_DIRECTORY);
	for (i = 0; i < calls; i++) {
		struct call call = {
			drawn(32), drawn(OPEN), drawn(6), drawn(1024),
			paths[drawn(count)], paths[drawn(count)],
		};

		if (drawn(40) == 0 && pwrite(caches, "2", 1, 0) != 1)
			return 2;
		for (side = 0; side < 2; side++) {
			answer[0] = 0;
			if (fchdir(roots[side]))
				return 2;
			setfsuid(call.user ? 0 : NOBODY);
			errno = 0;
			results[side] = done(&call, side);
			errors[side] = results[side] < 0 ? errno : 0;
			setfsuid(0);
			if (!side)
				strcpy(first, answer);
		}
		if (results[0] != results[1] || errors[0] != errors[1] || strcmp(first, answer)) {
			printf("FAILED: call %d of seed %s: %u of %s, %s by %s, %u:\n", i, argv[3],
			       call.what, call.path, call.other, call.user ? "root" : "nobody",
			       call.number);
			printf("%ld, errno %ld,%s\n", results[0], errors[0], first);
			printf("%ld, errno %ld,%s\n", results[1], errors[1], answer);
			printf("0 passed, 1 failed\n");
			return 1;
		}
	}
	printf("1 passed, 0 failed\n");
	return 0;
}
