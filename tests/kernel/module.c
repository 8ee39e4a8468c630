/*
 * The module culvert-fuse-ext, asked by a file system of a few lines and a program of a few
 * instructions, inside a guest (tests/kernel/run). Each check prints a line when it fails; the last
 * line is "N passed, N failed".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../extensions/include/culvert/fuse-ext.h"

static int passed, failed;

static void check(int holds, const char *what, ...)
{
	va_list words;

	if (holds) {
		passed++;
		return;
	}
	failed++;
	va_start(words, what);
	printf("FAILED: ");
	vprintf(what, words);
	printf(" (errno %d)\n", errno);
	va_end(words);
}

/* ---- a file system: a root, "given" in it (node 2), nothing else ---- */

struct server {
	int fd;
	pthread_t thread;
	unsigned long requests[64];
};

static void fill(struct fuse_attr *attr, uint64_t node)
{
	attr->ino = node;
	attr->mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
	attr->nlink = 1;
	attr->size = node == 1 ? 0 : 7;
}

static void *serve(void *argument)
{
	struct server *server = argument;
	static __thread char buffer[1 << 17];

	for (;;) {
		struct fuse_in_header *in = (void *)buffer;
		char *body = buffer + sizeof(*in);
		struct {
			struct fuse_out_header header;
			union {
				struct fuse_init_out init;
				struct fuse_entry_out entry;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
				struct fuse_statfs_out statfs;
			};
		} out;
		size_t length = 0;
		ssize_t got = read(server->fd, buffer, sizeof(buffer));

		if (got < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (got < (ssize_t)sizeof(*in))
			return NULL;
		if (in->opcode < 64)
			__atomic_add_fetch(&server->requests[in->opcode], 1, __ATOMIC_RELAXED);
		memset(&out, 0, sizeof(out));
		out.header.unique = in->unique;
		switch (in->opcode) {
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			continue;
		case FUSE_INIT:
			out.init.major = FUSE_KERNEL_VERSION;
			out.init.minor = 31;
			out.init.max_write = 4096;
			length = sizeof(out.init);
			break;
		case FUSE_LOOKUP:
			if (strcmp(body, "given")) {
				out.header.error = -ENOENT;
				break;
			}
			out.entry.nodeid = 2;
			fill(&out.entry.attr, 2);
			length = sizeof(out.entry);
			break;
		case FUSE_GETATTR:
			fill(&out.attr.attr, in->nodeid);
			length = sizeof(out.attr);
			break;
		case FUSE_OPEN:
		case FUSE_OPENDIR:
			length = sizeof(out.open);
			break;
		case FUSE_RELEASE:
		case FUSE_RELEASEDIR:
		case FUSE_FLUSH:
			break;
		case FUSE_GETXATTR:
			out.header.error = -ENODATA;
			break;
		default:
			out.header.error = -ENOSYS;
		}
		out.header.len = sizeof(out.header) + length;
		if (write(server->fd, &out, out.header.len) < 0 && errno == ENODEV)
			return NULL;
	}
}

static int mount_at(struct server *server, const char *place)
{
	char options[128];

	memset(server, 0, sizeof(*server));
	mkdir(place, 0755);
	server->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=7,group_id=0,allow_other",
		 server->fd);
	if (server->fd < 0 || mount("test", place, "fuse.test", MS_NOSUID | MS_NODEV, options))
		return -1;
	return pthread_create(&server->thread, NULL, serve, server);
}

static void unmount(struct server *server, const char *place)
{
	umount2(place, MNT_DETACH);
	pthread_join(server->thread, NULL);
	close(server->fd);
}

/* ---- a program ---- */

#define AT(member) offsetof(struct culvert_request, member)
#define LOAD(size, to, from, offset) \
	{ .code = BPF_LDX | BPF_MEM | size, .dst_reg = to, .src_reg = from, .off = offset }
#define STORE(size, to, offset, value) \
	{ .code = BPF_ST | BPF_MEM | size, .dst_reg = to, .off = offset, .imm = value }
#define SET(to, value) { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to, .imm = value }
#define SET64(to, value) \
	{ .code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = to, .imm = (uint32_t)(value) }, \
	{ .imm = (uint64_t)(value) >> 32 }
/* Goes on `skip` instructions further if it is not equal. */
#define UNLESS(reg, value, skip) \
	{ .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = reg, .imm = value, .off = skip }
#define UNLESS_REG(reg, other, skip) \
	{ .code = BPF_JMP | BPF_JNE | BPF_X, .dst_reg = reg, .src_reg = other, .off = skip }
#define RETURN { .code = BPF_JMP | BPF_EXIT }

#define NAME_ABSENT 0x746e65736261ull	/* "absent", as it lies in memory */
#define NAME_MADE 0x6564616dull		/* "made" */
#define NAME_SHORT 0x74726f6873ull	/* "short" */

static const struct bpf_insn program[] = {
	LOAD(BPF_DW, 6, 1, 0),
	LOAD(BPF_W, 7, 6, AT(opcode)),
	LOAD(BPF_DW, 8, 6, AT(name)),
	/* GETXATTR: there is none, said for user 1000 alone. */
	UNLESS(7, FUSE_GETXATTR, 4),
	LOAD(BPF_W, 9, 6, AT(uid)),
	UNLESS(9, 1000, 2),
	SET(0, -ENODATA),
	RETURN,
	/* GETATTR of the root: 99 bytes. */
	UNLESS(7, FUSE_GETATTR, 8),
	LOAD(BPF_DW, 9, 6, AT(nodeid)),
	UNLESS(9, 1, 6),
	STORE(BPF_W, 6, AT(out) + offsetof(struct fuse_attr_out, attr.mode), S_IFDIR | 0755),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_attr_out, attr.ino), 1),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_attr_out, attr.size), 99),
	STORE(BPF_W, 6, AT(out_length), sizeof(struct fuse_attr_out)),
	SET(0, CULVERT_REPLY),
	RETURN,
	UNLESS(7, FUSE_LOOKUP, 22),
	/* LOOKUP of "absent": ENOENT. */
	SET64(9, NAME_ABSENT),
	UNLESS_REG(8, 9, 2),
	SET(0, -ENOENT),
	RETURN,
	/* LOOKUP of "made": node 3, which the server does not know of. */
	SET64(9, NAME_MADE),
	UNLESS_REG(8, 9, 8),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_entry_out, nodeid), 3),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_entry_out, attr_valid), 10),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_entry_out, attr.ino), 3),
	STORE(BPF_W, 6, AT(out) + offsetof(struct fuse_entry_out, attr.mode), S_IFREG | 0600),
	STORE(BPF_DW, 6, AT(out) + offsetof(struct fuse_entry_out, attr.size), 33),
	STORE(BPF_W, 6, AT(out_length), sizeof(struct fuse_entry_out)),
	SET(0, CULVERT_REPLY),
	RETURN,
	/* LOOKUP of "short": an answer that does not fit. */
	SET64(9, NAME_SHORT),
	UNLESS_REG(8, 9, 3),
	STORE(BPF_W, 6, AT(out_length), 5),
	SET(0, CULVERT_REPLY),
	RETURN,
	SET(0, CULVERT_UPCALL),
	RETURN,
};

static int load_as(const struct bpf_insn *insns, unsigned int count, union bpf_attr attr)
{
	static char log[65536];
	int fd;

	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = count;
	attr.license = (uintptr_t)"GPL";
	attr.log_buf = (uintptr_t)log;
	attr.log_size = sizeof(log);
	attr.log_level = 1;
	fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		fprintf(stderr, "%s\n", log);
	return fd;
}

static int load(const struct bpf_insn *insns, unsigned int count)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE;
	return load_as(insns, count, attr);
}

static int attach(int fuse, int fd, int *device)
{
	struct culvert_ext_attach asked = {
		.version = CULVERT_EXT_VERSION, .fuse = fuse, .program = fd,
	};

	*device = open("/dev/culvert-fuse-ext", O_RDWR | O_CLOEXEC);
	return ioctl(*device, CULVERT_EXT_ATTACH, &asked);
}

/* As user 1000, in a process of its own. */
static long getxattr_as(uid_t uid, const char *path)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		char value[8];

		if (setresuid(uid, uid, uid))
			_exit(1);
		_exit(getxattr(path, "user.x", value, sizeof(value)) < 0 ? errno : 0);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void answers(void)
{
	struct server one, two;
	struct culvert_ext_counts counts;
	struct stat st;
	int device, other, fd = load(program, sizeof(program) / sizeof(*program));
	unsigned long before;

	check(fd >= 0, "the program is loaded");
	check(!mount_at(&one, "/tmp/one") && !mount_at(&two, "/tmp/two"), "two mounts");
	/* INIT is answered when this is. */
	check(!stat("/tmp/one", &st) && !stat("/tmp/two", &st), "both are served");
	check(!attach(one.fd, fd, &device), "the program is attached");
	check(attach(one.fd, fd, &other) == -1 && errno == EBUSY, "one program for a connection");
	close(other);

	before = one.requests[FUSE_LOOKUP];
	check(stat("/tmp/one/absent", &st) == -1 && errno == ENOENT, "an answered ENOENT");
	check(!stat("/tmp/one/made", &st) && st.st_size == 33 && st.st_ino == 3, "an answered entry");
	check(one.requests[FUSE_LOOKUP] == before, "the server heard of neither");
	check(!stat("/tmp/one/given", &st) && st.st_size == 7, "what the program leaves is asked");
	check(stat("/tmp/one/other", &st) == -1 && errno == ENOENT, "so is what is not there");
	check(one.requests[FUSE_LOOKUP] == before + 2, "the server heard of both");
	check(stat("/tmp/one/short", &st) == -1 && errno == ENOENT, "an answer that does not fit");
	check(one.requests[FUSE_LOOKUP] == before + 3, "the server is asked instead");

	before = one.requests[FUSE_GETATTR];
	check(!stat("/tmp/one", &st) && st.st_size == 99, "answered attributes");
	check(one.requests[FUSE_GETATTR] == before, "the server was not asked for them");
	before = one.requests[FUSE_GETXATTR];
	check(getxattr_as(1000, "/tmp/one") == ENODATA, "an answer for one user");
	check(one.requests[FUSE_GETXATTR] == before, "the server was not asked by him");
	check(getxattr_as(1001, "/tmp/one") == ENODATA, "another user");
	check(one.requests[FUSE_GETXATTR] == before + 1, "the server was asked by another one");

	before = two.requests[FUSE_LOOKUP];
	check(stat("/tmp/two/made", &st) == -1 && errno == ENOENT, "another mount is left alone");
	check(two.requests[FUSE_LOOKUP] == before + 1, "its server is asked");
	check(!ioctl(device, CULVERT_EXT_COUNTS, &counts) && counts.misfits == 1 &&
	      counts.answered >= 4 && counts.asked > counts.answered,
	      "the counts are %llu, %llu, %llu", counts.asked, counts.answered, counts.misfits);
	check(syscall(SYS_delete_module, "culvert_fuse_ext", O_NONBLOCK) == -1 &&
	      (errno == EWOULDBLOCK || errno == EBUSY), "the module stays while it is used");

	close(device);
	check(stat("/tmp/one/made", &st) == -1 && errno == ENOENT, "without the program");
	unmount(&one, "/tmp/one");
	unmount(&two, "/tmp/two");
	close(fd);
}

/* ---- others who trace the function that is hooked ---- */

/* The number of a function among the types of the kernel; 0: there is none, as in a module. */
static unsigned int function_id(const char *name)
{
	/* Bytes after struct btf_type, by kind; of the last ones for each member. */
	static const unsigned char fixed[] = { [1] = 4, [3] = 12, [14] = 4, [17] = 4 };
	static const unsigned char each[] = {
		[4] = 12, [5] = 12, [6] = 8, [13] = 8, [15] = 12, [19] = 12,
	};
	struct { uint16_t magic; uint8_t version, flags; uint32_t length, types, types_length,
		 strings, strings_length; } *header;
	FILE *file = fopen("/sys/kernel/btf/vmlinux", "r");
	size_t room = 32 << 20, got;
	unsigned int id, found = 0;
	char *all = malloc(room);

	if (!file || !all)
		return 0;
	got = fread(all, 1, room, file);
	fclose(file);
	header = (void *)all;
	if (got > sizeof(*header)) {
		char *at = all + header->length + header->types;
		char *end = at + header->types_length;

		for (id = 1; at < end && !found; id++) {
			uint32_t *type = (void *)at, kind = type[1] >> 24 & 0x1f;

			if (kind == 12 &&
			    !strcmp(all + header->length + header->strings + type[0], name))
				found = id;
			at += 12 + (kind < sizeof(fixed) ? fixed[kind] : 0) +
				(kind < sizeof(each) ? each[kind] : 0) * (type[1] & 0xffff);
		}
	}
	free(all);
	return found;
}

/* Programs at the beginning and at the end of the function, which change neither. */
static int trace(unsigned int function, enum bpf_attach_type where, int *fd)
{
	static const struct bpf_insn nothing[] = { SET(0, 0), RETURN };
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_TRACING;
	attr.expected_attach_type = where;
	attr.attach_btf_id = function;
	*fd = load_as(nothing, 2, attr);
	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.prog_fd = *fd;
	return *fd < 0 ? -1 : (int)syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
}

static void traced(void)
{
	unsigned int function = function_id("__fuse_simple_request");
	int device, fd = load(program, sizeof(program) / sizeof(*program));
	int links[2], programs[2], later, i;
	struct server one;
	struct stat st;

	/* In 6.1 FUSE is a module. */
	if (!function)
		return;
	/* Attached before who traces, and after. */
	for (later = 0; later < 2; later++) {
		check(!mount_at(&one, "/tmp/one") && !stat("/tmp/one", &st), "a mount");
		if (later)
			check(!attach(one.fd, fd, &device), "the program is attached first");
		links[0] = trace(function, BPF_TRACE_FENTRY, &programs[0]);
		links[1] = trace(function, BPF_TRACE_FEXIT, &programs[1]);
		check(links[0] >= 0 && links[1] >= 0, "the function is traced");
		if (!later)
			check(!attach(one.fd, fd, &device), "a traced function is hooked");
		check(stat("/tmp/one/absent", &st) == -1 && errno == ENOENT, "a traced ENOENT");
		check(!stat("/tmp/one/made", &st) && st.st_size == 33, "a traced entry");
		check(!stat("/tmp/one/given", &st) && st.st_size == 7, "a traced upcall");
		check(getxattr_as(1000, "/tmp/one") == ENODATA, "a traced errno");
		for (i = 0; i < 2; i++) {
			close(links[i]);
			close(programs[i]);
		}
		check(!stat("/tmp/one/made", &st), "when nobody traces any more");
		close(device);
		unmount(&one, "/tmp/one");
	}
	close(fd);
}

/* Whose a connection is. */
static void owned(const struct server *one, int null)
{
	struct culvert_ext_owner of = { .fuse = one->fd };
	int device = open("/dev/culvert-fuse-ext", O_RDWR);
	struct stat st;

	check(!stat("/tmp/one", &st) && !ioctl(device, CULVERT_EXT_OWNER, &of) && of.uid == 7 &&
	      makedev(of.major, of.minor) == st.st_dev, "whose a connection is: %u", of.uid);
	of.fuse = null;
	check(ioctl(device, CULVERT_EXT_OWNER, &of) == -1 && errno == EINVAL, "of no connection");
	check(!seteuid(65534) && ioctl(device, CULVERT_EXT_OWNER, &of) == -1 && errno == EPERM &&
	      !seteuid(0), "whose it is others may not ask");
	close(device);
}

static void refusals(void)
{
	static const struct bpf_insn far[] = {
		LOAD(BPF_DW, 6, 1, 0),
		LOAD(BPF_W, 0, 6, sizeof(struct culvert_request)),
		RETURN,
	};
	/* An argument that there is not. */
	static const struct bpf_insn second[] = { LOAD(BPF_DW, 0, 1, 8), SET(0, 0), RETURN };
	static const struct bpf_insn bad[] = {
		LOAD(BPF_DW, 6, 1, 0),
		LOAD(BPF_DW, 0, 6, -8),
		RETURN,
	};
	struct culvert_ext_attach wrong = { .version = CULVERT_EXT_VERSION + 1 };
	struct server one;
	struct stat st;
	int device, fd = load(far, 3), null = open("/dev/null", O_RDWR), refused, fresh, err;

	err = dup(2);
	dup2(null, 2);
	refused = load(bad, 3);
	dup2(err, 2);
	check(refused < 0, "the verifier refuses to read before the request");
	check(!mount_at(&one, "/tmp/one") && !stat("/tmp/one", &st), "a mount");
	check(fd >= 0 && attach(one.fd, fd, &device) == -1 && errno == E2BIG,
	      "a program that reads further than the request");
	check(ioctl(device, CULVERT_EXT_ATTACH, &wrong) == -1 && errno == EOPNOTSUPP,
	      "another version");
	close(device);
	check(attach(one.fd, null, &device) == -1 && errno == EINVAL, "no program");
	close(device);
	close(fd);
	fd = load(second, 3);
	check(fd >= 0 && attach(one.fd, fd, &device) == -1 && errno == E2BIG,
	      "a program that reads another argument");
	close(device);
	close(fd);
	fd = load(program, sizeof(program) / sizeof(*program));
	check(attach(null, fd, &device) == -1 && errno == EINVAL, "no connection");
	close(device);
	fresh = open("/dev/fuse", O_RDWR);
	check(attach(fresh, fd, &device) == -1 && errno == ENOTCONN, "not mounted");
	close(fresh);
	close(device);
	check(attach(-1, fd, &device) == -1 && errno == EBADF, "no descriptor");
	close(device);
	owned(&one, null);
	close(fd);
	unmount(&one, "/tmp/one");
}

/* A server is killed while others ask: who asks gets an error, nobody hangs. */
static void killed(void)
{
	int ends[2], status;
	struct stat st;
	pid_t child;
	char one;

	check(!pipe(ends), "a pipe");
	child = fork();
	if (!child) {
		struct server server;
		int device, fd = load(program, sizeof(program) / sizeof(*program));

		if (mount_at(&server, "/tmp/one") || stat("/tmp/one", &st) ||
		    attach(server.fd, fd, &device))
			_exit(1);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	check(read(ends[0], &one, 1) == 1, "the server is up");
	check(!stat("/tmp/one/made", &st), "its program answers");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	check(stat("/tmp/one/made", &st) == -1 && errno == ENOTCONN, "nothing answers afterwards");
	umount2("/tmp/one", MNT_DETACH);
	close(ends[0]);
	close(ends[1]);
}

/* Attached and detached again and again while others ask. */
static void *ask(void *stop)
{
	struct stat st;
	long wrong = 0;

	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		if (stat("/tmp/one/made", &st) && errno != ENOENT)
			wrong++;
		if (stat("/tmp/one/given", &st) || st.st_size != 7)
			wrong++;
	}
	return (void *)wrong;
}

static void again(void)
{
	struct server one;
	pthread_t asker;
	struct stat st;
	int device, i, stop = 0, good = 0;
	int fd = load(program, sizeof(program) / sizeof(*program));
	void *wrong;

	check(!mount_at(&one, "/tmp/one") && !stat("/tmp/one", &st), "a mount");
	pthread_create(&asker, NULL, ask, &stop);
	for (i = 0; i < 20; i++) {
		good += !attach(one.fd, fd, &device) && !stat("/tmp/one/made", &st);
		close(device);
		good += stat("/tmp/one/made", &st) == -1 && errno == ENOENT;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(asker, &wrong);
	check(good == 40, "attached 20 times under load: %d of 40", good);
	check(!wrong, "all answers are right: %ld are not", (long)wrong);
	unmount(&one, "/tmp/one");
	close(fd);
}

/* Unloaded and loaded again; file systems go on. */
static void reloaded(const char *path)
{
	int i, good = 0, file;

	for (i = 0; i < 20; i++) {
		good += !syscall(SYS_delete_module, "culvert_fuse_ext", O_NONBLOCK);
		file = open(path, O_RDONLY | O_CLOEXEC);
		good += !syscall(SYS_finit_module, file, "", 0);
		close(file);
	}
	check(good == 40, "loaded 20 times: %d of 40", good);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (access("/dev/culvert-fuse-ext", F_OK)) {
		printf("the module is not loaded\n0 passed, 1 failed\n");
		return 1;
	}
	answers();
	refusals();
	traced();
	killed();
	again();
	if (argc > 1)
		reloaded(argv[1]);
	answers();
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
