/*
 * What filebench's workloads do to a file system, the same each time: bench/extensions counts the
 * requests that reach a server.
 *
 *     extensions WORKLOAD DIRECTORY FILES OPERATIONS [PROCESSES]
 *
 * create, delete, read: each of FILES once, 4 KiB. fileserver: create and write, append, read,
 * delete and stat of files of 16 KiB. webserver: ten files are read, then a log grows. Files lie in
 * directories of 100, as filebench has them; which one is next is drawn by a fixed seed. Several
 * processes (filebench's threads) do OPERATIONS each.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[1 << 17], path[4096];
static const char *directory;
static int files, first;
static unsigned int seed = 1;

static void failed(const char *what)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static int drawn(int below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

static const char *name(int file)
{
	snprintf(path, sizeof(path), "%s/%d/%d", directory, file / 100, file);
	return path;
}

static void put(int file, int flags, int size)
{
	int fd = open(name(file), O_WRONLY | flags, 0644);

	if (fd < 0 || write(fd, buffer, size) != size || close(fd))
		failed("write");
}

static void get(int file)
{
	int fd = open(name(file), O_RDONLY);

	if (fd < 0)
		failed("open");
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
}

/* Goes on in so many processes, each with other files to come and go. */
static void several(int processes, int operations)
{
	int child;

	for (child = 1; child < processes; child++) {
		if (!fork()) {
			seed += child;
			first += child * operations;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct stat st;
	int i, j, operations, log, status;

	if (argc != 5 && argc != 6)
		return 2;
	directory = argv[2];
	files = atoi(argv[3]);
	operations = atoi(argv[4]);
	first = files;
	several(argc == 6 ? atoi(argv[5]) : 1, operations);
	if (!strcmp(argv[1], "create")) {
		for (i = 0; i < files; i++) {
			snprintf(path, sizeof(path), "%s/%d", directory, i / 100);
			if (i % 100 == 0 && mkdir(path, 0755) && errno != EEXIST)
				failed("mkdir");
			put(i, O_CREAT | O_EXCL, 4096);
		}
	} else if (!strcmp(argv[1], "delete")) {
		for (i = 0; i < files; i++) {
			if (unlink(name(i)))
				failed("unlink");
		}
	} else if (!strcmp(argv[1], "read")) {
		for (i = 0; i < operations; i++)
			get(drawn(files));
	} else if (!strcmp(argv[1], "fileserver")) {
		for (i = 0; i < operations; i++) {
			put(first + i, O_CREAT, 16384);
			put(drawn(files), O_APPEND, 4096);
			get(drawn(files));
			if (unlink(name(first + i)) || stat(name(drawn(files)), &st))
				failed("unlink or stat");
		}
	} else if (!strcmp(argv[1], "webserver")) {
		for (i = 0; i < operations; i++) {
			for (j = 0; j < 10; j++)
				get(drawn(files));
			snprintf(path, sizeof(path), "%s/log", directory);
			log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
			if (log < 0 || write(log, buffer, 4096) != 4096 || close(log))
				failed("append");
		}
	} else {
		return 2;
	}
	/* Its own processes have none to wait for. */
	while (wait(&status) > 0) {
		if (status)
			return 1;
	}
	return 0;
}
