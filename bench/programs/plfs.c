/* The pattern of Fs_test: PROCESSES write one file together, and read it again.
 *
 * plfs write DIRECTORY PROCESSES SIZE TOTAL strided|segmented|append|own
 *     A line of numbers: MB/s of writing and of reading, from the first beginning to the last end;
 *     microseconds of open, sync and close, of the slowest process each. Processes begin each step
 *     together. With "own" each has a file of its own.
 * plfs records CONTAINER WRITERS EACH SIZE
 *     Makes the droppings of a container that WRITERS have written in turn, EACH so many records; its
 *     data droppings have no blocks.
 * plfs first FILE OFFSET
 *     Milliseconds until the first 4 KiB are read there, and the most memory then, in MB.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, WRITE, SYNC, CLOSE, READ, STEPS };

/* Shared by all processes: who has come to a step, and how long the slowest took for it. */
struct shared {
	_Atomic int come[2 * STEPS];
	_Atomic long longest[STEPS];
	/* When the first one began a step, negative, and the last one ended it. */
	_Atomic long first[STEPS], last[STEPS];
	_Atomic int failed;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Waits for all processes, asleep: who is ready takes no time from who is not. */
static void together(struct shared *shared, int at, int processes)
{
	_Atomic int *come = &shared->come[at];
	struct timespec second = { .tv_sec = 1 };
	if (++*come == processes) {
		syscall(SYS_futex, come, FUTEX_WAKE, processes, NULL, NULL, 0);
		return;
	}
	for (int found; (found = *come) < processes;) {
		if (shared->failed)
			exit(1);
		syscall(SYS_futex, come, FUTEX_WAIT, found, &second, NULL, 0);
	}
}

/* Makes `word` `value` where that is more, or it was nothing yet. */
static void more(_Atomic long *word, long value)
{
	long found = *word;
	while ((found == 0 || value > found) && !atomic_compare_exchange_weak(word, &found, value))
		;
}

/* Nanoseconds from the first beginning of a step to its last end. */
static double took(struct shared *shared, int step)
{
	return shared->last[step] + shared->first[step];
}

static long begin(struct shared *shared, int step, int processes)
{
	together(shared, 2 * step, processes);
	long since = now();
	more(&shared->first[step], -since);
	return since;
}

static void end(struct shared *shared, int step, int processes, long since)
{
	long end = now();
	more(&shared->longest[step], end - since);
	more(&shared->last[step], end);
	together(shared, 2 * step + 1, processes);
}

static void worker(struct shared *shared, const char *path, int own, int processes, long size,
		   long count, const char *how)
{
	char *bytes = malloc(size), its[4112];
	int alone = !strcmp(how, "own"), letter = 'a' + own;
	if (alone) {
		snprintf(its, sizeof its, "%s.%d", path, own);
		path = its;
		own = 0;
	}
	int append = !strcmp(how, "append"), strided = !strcmp(how, "strided");
	memset(bytes, letter, size);
	long since = begin(shared, OPEN, processes);
	int fd = open(path, O_RDWR | O_CREAT | (append ? O_APPEND : 0), 0644);
	if (fd < 0)
		fail(path);
	end(shared, OPEN, processes, since);
	since = begin(shared, WRITE, processes);
	for (long at = 0; at < count; at++) {
		off_t place = strided ? (at * processes + own) * size : (own * count + at) * size;
		ssize_t done = append ? write(fd, bytes, size) : pwrite(fd, bytes, size, place);
		if (done != size)
			fail("write");
	}
	end(shared, WRITE, processes, since);
	since = begin(shared, SYNC, processes);
	if (fsync(fd))
		fail("fsync");
	end(shared, SYNC, processes, since);
	since = begin(shared, READ, processes);
	for (long at = 0; at < count; at++) {
		off_t place = strided ? (at * processes + own) * size : (own * count + at) * size;
		if (pread(fd, bytes, size, place) != size || (!append && bytes[size - 1] != (char)letter))
			fail("read");
	}
	end(shared, READ, processes, since);
	since = begin(shared, CLOSE, processes);
	if (close(fd))
		fail("close");
	end(shared, CLOSE, processes, since);
	if (alone)
		unlink(path);
	exit(0);
}

static int write_together(char **words)
{
	char path[4096];
	int processes = atoi(words[1]), status;
	long size = atol(words[2]), total = atol(words[3]), count = total / size / processes;
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(path, sizeof path, "%s/checkpoint", words[0]);
	unlink(path);
	for (int own = 0; own < processes; own++)
		if (fork() == 0)
			worker(shared, path, own, processes, size, count, words[4]);
	while (wait(&status) > 0)
		if (status)
			shared->failed = 1;
	if (shared->failed)
		return 1;
	double bytes = (double)count * processes * size;
	printf("%f %f %f %f %f\n", bytes * 1000 / took(shared, WRITE),
	       bytes * 1000 / took(shared, READ), shared->longest[OPEN] / 1e3,
	       shared->longest[SYNC] / 1e3, shared->longest[CLOSE] / 1e3);
	unlink(path);
	return 0;
}

/* An index record of PLFS 2.5. */
struct record {
	int64_t logical, physical;
	uint64_t length;
	double begin, end;
	int32_t id, padding;
};

static int records(char **words)
{
	char path[4096];
	long writers = atol(words[1]), each = atol(words[2]), size = atol(words[3]);
	struct record *all = calloc(each, sizeof *all);
	for (long own = 0; own < writers; own++) {
		for (long at = 0; at < each; at++)
			all[at] = (struct record){(at * writers + own) * size, at * size, size,
						  1.7e9 + at * 1e-6, 1.7e9 + at * 1e-6, own + 1, 0};
		snprintf(path, sizeof path, "%s/hostdir.0", words[0]);
		mkdir(path, 0755);
		snprintf(path, sizeof path, "%s/hostdir.0/dropping.index.1700000000.000001.h.%ld",
			 words[0], own + 1);
		FILE *file = fopen(path, "w");
		if (!file || fwrite(all, sizeof *all, each, file) != (size_t)each || fclose(file))
			fail(path);
		snprintf(path, sizeof path, "%s/hostdir.0/dropping.data.1700000000.000001.h.%ld",
			 words[0], own + 1);
		int fd = open(path, O_WRONLY | O_CREAT, 0644);
		if (fd < 0 || ftruncate(fd, each * size))
			fail(path);
		close(fd);
	}
	return 0;
}

static int first(char **words)
{
	char bytes[4096], line[256];
	long since = now(), most = 0;
	int fd = open(words[0], O_RDONLY);
	if (fd < 0 || pread(fd, bytes, sizeof bytes, atol(words[1])) != sizeof bytes)
		fail(words[0]);
	double took = (now() - since) / 1e6;
	FILE *status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof line, status))
		sscanf(line, "VmHWM: %ld", &most);
	printf("%f %f\n", took, most / 1024.0);
	return 0;
}

int main(int count, char **words)
{
	if (count == 7 && !strcmp(words[1], "write"))
		return write_together(words + 2);
	if (count == 6 && !strcmp(words[1], "records"))
		return records(words + 2);
	if (count == 4 && !strcmp(words[1], "first"))
		return first(words + 2);
	fprintf(stderr, "see the source\n");
	return 2;
}
