/*
 * Requests to the loader service (`culvert extend`) by hand, as nobody, inside a guest
 * (tests/kernel/users.sh): what it must refuse. Each check prints a line when it fails; the last
 * line is "N passed, N failed".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../extensions/include/culvert/fuse-ext.h"

#define NOBODY 65534
/* Of the ready parts: settings, names, nodes, xattrs, records. */
#define MAPS 5

static int passed, failed;
static struct {
	uint32_t magic, count, entries[MAPS];
	char object[128 << 10];
} request = { 0x01435645, MAPS, { 1, 1024, 1024, 1, 4096 } };
static size_t length;

static void check(int holds, const char *what, const char *said)
{
	if (holds) {
		passed++;
		return;
	}
	failed++;
	printf("FAILED: %s: %s (errno %d)\n", what, said, errno);
}

/* A connection of FUSE whose mount names this user; nobody serves it. */
static int mounted(const char *place, int user, unsigned long flags)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	mkdir(place, 0755);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=0", fd, user);
	check(fd >= 0 && !mount("test", place, "fuse.test", flags, options), "a mount", place);
	return fd;
}

static int service(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "/run/culvert/extend" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	check(fd >= 0 && !connect(fd, (void *)&to, sizeof(to)), "connected", to.sun_path);
	return fd;
}

/* What the service says to these bytes and descriptors; those that it sends are in `got`. */
static const char *ask(size_t bytes, const int *fds, int count, int *got)
{
	static char text[600];
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(16 * sizeof(int))];
	} control = {};
	struct iovec part = { &request, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fd = service();
	ssize_t came;

	if (count) {
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	/* It may have refused before. */
	if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)bytes && errno != EPIPE)
		return "not sent";
	memset(text, 0, sizeof(text));
	part = (struct iovec){ text, sizeof(text) - 1 };
	message.msg_control = &control;
	message.msg_controllen = sizeof(control);
	came = recvmsg(fd, &message, 0);
	close(fd);
	if (came < 4)
		return "no answer";
	if (CMSG_FIRSTHDR(&message) && got)
		memcpy(got, CMSG_DATA(&control.header), (1 + MAPS) * sizeof(int));
	return came == 4 ? "loaded" : text + 4;
}

static void refused(size_t bytes, const int *fds, int count, const char *why)
{
	const char *said = ask(bytes, fds, count, NULL);

	check(strstr(said, why) != NULL, why, said);
}

/* Asks until the service says this, for some seconds; null: it does not. */
static const char *until(size_t bytes, const int *fds, const char *what)
{
	const char *said;
	int i;

	for (i = 0; i < 100; i++) {
		said = ask(bytes, fds, 1, NULL);
		if (strstr(said, what))
			return said;
		usleep(20000);
	}
	return NULL;
}

int main(void)
{
	unsigned long safe = MS_NOSUID | MS_NODEV;
	int other = mounted("/tmp/other", 7, safe), unsafe = mounted("/tmp/unsafe", NOBODY, MS_NODEV);
	int own = mounted("/tmp/own", NOBODY, safe), fresh = open("/dev/fuse", O_RDWR);
	int two[] = { own, own }, null = open("/dev/null", O_RDWR), got[1 + MAPS], idle[4], tries, i;
	int object = open("/ready.o", O_RDONLY);
	struct culvert_ext_attach attach = { .version = CULVERT_EXT_VERSION, .fuse = own };
	struct culvert_ext_owner owner = { .fuse = own };
	struct culvert_ext_counts counts;
	const char *said;

	length = read(object, request.object, sizeof(request.object));
	check(length > 1000 && length < sizeof(request.object), "an object", "");
	length += sizeof(request) - sizeof(request.object);
	check(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY), "nobody", "");
	check(open("/dev/culvert-fuse-ext", O_RDWR) == -1, "the device is root's", "");

	refused(length, &other, 1, "another user's");
	refused(length, &unsafe, 1, "nosuid");
	refused(length, &fresh, 1, "not connected");
	refused(length, &null, 1, "Invalid argument");
	refused(length, NULL, 0, "0 descriptors");
	refused(length, two, 2, "2 descriptors");
	refused(length - 1, &own, 1, "not on the list");
	refused(6, &own, 1, "none of this version");
	refused(sizeof(request), &own, 1, "not on the list");

	/*
	 * Who only connects keeps others of the same user waiting, and no more of them. A request that
	 * was answered counts for a moment more, in place of one of these, which is refused then.
	 */
	for (tries = 0, said = ""; tries < 20 && !strstr(said, "at once"); tries++) {
		for (i = 0; i < 4; i++)
			idle[i] = service();
		said = ask(length, &other, 1, NULL);
		for (i = 0; i < 4; i++)
			close(idle[i]);
		usleep(20000);
	}
	check(strstr(said, "at once") != NULL, "too many at once", said);
	check(until(length, &other, "another user's") != NULL, "and again", "refused");

	said = ask(length, &own, 1, got);
	check(!strcmp(said, "loaded"), "one's own", said);
	check(!ioctl(got[0], CULVERT_EXT_COUNTS, &counts), "the counts", "");
	check(ioctl(got[0], CULVERT_EXT_ATTACH, &attach) == -1 && errno == EPERM,
	      "nobody attaches by what he got", "");
	check(ioctl(got[0], CULVERT_EXT_OWNER, &owner) == -1 && errno == EPERM, "nor asks", "");
	refused(length, &own, 1, "busy");
	close(got[0]);
	said = ask(length, &own, 1, got);
	check(!strcmp(said, "loaded"), "closing detaches", said);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
