/* Data from descriptor to descriptor. */
#include "executor.h"
#include "arguments.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* An offset in memory, or none for `-`. */
static off_t *offset(const char *word, off_t *place)
{
    if (!strcmp(word, "-"))
        return NULL;
    *place = number(word);
    return place;
}

static void show_offsets(long moved, off_t *first, off_t *second)
{
    result(moved);
    if (first)
        out(" in=%ld", (long)*first);
    if (second)
        out(" out=%ld", (long)*second);
}

/* One descriptor to another actor's socket. */
static void send_descriptor(int actor, int fd)
{
    char space[CMSG_SPACE(sizeof fd)] = "", byte = 'x';
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    result(sendmsg(FIRST_SOCKET + 2 * actor + 1, &message, MSG_DONTWAIT));
}

static void receive_descriptor(const char *slot, int flags)
{
    int fd = -1;
    char space[CMSG_SPACE(sizeof fd)] = "", byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
    if (result(recvmsg(FIRST_SOCKET + 2 * self, &message, MSG_DONTWAIT | flags)) == -1)
        return;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    new_descriptor(slot, fd);
}

bool transfer_operation(struct step *s, int at)
{
    off_t in, out_place;
    if (IS("sendfile", 4)) {
        off_t *from = offset(W(3), &in);
        show_offsets(sendfile(F(1), F(2), from, (size_t)N(4)), from, NULL);
    } else if (IS("splice", 5)) {
        off_t *from = offset(W(2), &in), *to = offset(W(4), &out_place);
        show_offsets(splice(F(1), from, F(3), to, (size_t)N(5), SPLICE_F_NONBLOCK), from, to);
    } else if (IS("copyrange", 5)) {
        off_t *from = offset(W(2), &in), *to = offset(W(4), &out_place);
        show_offsets(copy_file_range(F(1), from, F(3), to, (size_t)N(5), 0), from, to);
    } else if (IS("clone", 2)) {
        result(ioctl(F(1), FICLONE, F(2)));
    } else if (IS("pipe", 2)) {
        int ends[2] = { -1, -1 };
        if (outcome(pipe2(ends, O_NONBLOCK)) == 0) {
            new_descriptor(W(1), ends[0]);
            new_descriptor(W(2), ends[1]);
        }
    } else if (IS("send", 2)) {
        send_descriptor((int)N(1), F(2));
    } else if (IS("receive", 2)) {
        receive_descriptor(W(1), N(2) ? MSG_CMSG_CLOEXEC : 0);
    } else {
        return false;
    }
    return true;
}
