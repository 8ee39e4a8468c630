/* One system call that waits, ended by a signal whose handler does nothing.
 *
 * interrupted OPERATION PATH: the signal is sent again and again until the call has ended, for one that comes before the call is of no use. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static void nothing(int signal) { (void)signal; }

static int is(const char *operation, const char *name) { return strcmp(operation, name) == 0; }

static int call(const char *operation, const char *path)
{
	char other[4096];
	int fd = -1;
	static char bytes[128 << 10];
	if (is(operation, "fsync") || is(operation, "lseek") || is(operation, "read"))
		fd = open(path, O_RDWR);
	snprintf(other, sizeof other, "%s-new", path);
	/* The process that sends the signals waits for this. */
	if (write(3, "r", 1) != 1)
		return -2;
	if (is(operation, "fsync"))
		return fsync(fd);
	if (is(operation, "lseek"))
		return lseek(fd, 0, SEEK_DATA);
	if (is(operation, "read")) {
		ssize_t count = pread(fd, bytes, sizeof bytes, 0);
		errno = count < 0 ? errno : ENODATA;
		return count == sizeof bytes ? 0 : -1;
	}
	if (is(operation, "open"))
		return open(path, O_RDONLY);
	if (is(operation, "mkdir"))
		return mkdir(other, 0755);
	if (is(operation, "rename"))
		return rename(path, other);
	if (is(operation, "unlink"))
		return unlink(path);
	if (is(operation, "chmod"))
		return chmod(path, 0600);
	if (is(operation, "setxattr"))
		return setxattr(path, "user.x", "y", 1, 0);
	fprintf(stderr, "unknown: %s\n", operation);
	return -2;
}

int main(int count, char **words)
{
	int ready[2];
	if (count != 3 || pipe(ready) != 0)
		return 2;
	struct sigaction action = { .sa_handler = nothing };
	sigaction(SIGUSR1, &action, NULL);
	pid_t child = fork();
	if (child == 0) {
		dup2(ready[1], 3);
		int result = call(words[1], words[2]);
		printf("%s: %s\n", words[1], result < 0 ? strerrorname_np(errno) : "ended by itself");
		fflush(stdout);
		_exit(result == -2);
	}
	close(ready[1]);
	char byte;
	if (read(ready[0], &byte, 1) != 1)
		return 3;
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	int status;
	while (waitpid(child, &status, WNOHANG) == 0) {
		kill(child, SIGUSR1);
		nanosleep(&pause, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
