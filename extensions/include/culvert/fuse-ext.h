/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT OR Apache-2.0 */
/* Between the module culvert-fuse-ext, the programs that it runs, and who attaches them. */
#ifndef CULVERT_FUSE_EXT_H
#define CULVERT_FUSE_EXT_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Counts changes of what is below; the module attaches for its own version alone. */
#define CULVERT_EXT_VERSION 1

/*
 * A request of FUSE, normalised: whatever the kernel's version, the parts are those that a server
 * reads from /dev/fuse. The program reads all of it, and writes `out` and `out_length`.
 */
struct culvert_request {
	__u32 opcode;		/* enum fuse_opcode */
	__u32 in_length;	/* bytes of in */
	__u64 nodeid;
	__u32 uid;		/* the caller, as the server would see it */
	__u32 gid;
	__u32 pid;
	__u32 name_length;	/* bytes of name, without the byte 0 that follows it */
	__u32 name2_length;
	__u32 out_size;		/* how long an answer is, at most where its length varies */
	__u32 out_length;	/* how long the program's answer is */
	__u32 padding;
	__u8 in[128];		/* fuse_*_in, its first bytes; the rest is 0 */
	__u8 name[256];		/* LOOKUP's, the first of RENAME, of an xattr; the rest is 0 */
	__u8 name2[256];	/* the second: RENAME's new name, a link's target */
	__u8 out[256];		/* fuse_*_out; 0 before the program runs */
};

/* What a program returns; besides, a negative errno is the answer. */
#define CULVERT_UPCALL 0	/* the server is asked, as without a program */
#define CULVERT_REPLY 1		/* `out` is the answer */

/* Attaches a program to a connection, until the descriptor of the device is closed. */
struct culvert_ext_attach {
	__u32 version;		/* CULVERT_EXT_VERSION */
	__s32 fuse;		/* descriptor of /dev/fuse, mounted */
	__s32 program;		/* descriptor of a program of type RAW_TRACEPOINT_WRITABLE */
	__u32 flags;		/* 0 */
};

/* What happened since. */
struct culvert_ext_counts {
	__u64 asked;		/* how often the program ran */
	__u64 answered;		/* of these, how often it answered */
	__u64 misfits;		/* of these, whose answer did not fit: the server was asked */
};

/* Whose a connection is, and the number of its file system. */
struct culvert_ext_owner {
	__s32 fuse;		/* descriptor of /dev/fuse, mounted */
	__u32 uid;		/* the mount's user_id, as the asker would see it */
	__u32 major;		/* as in /proc/PID/mountinfo */
	__u32 minor;
};

#define CULVERT_EXT_ATTACH _IOW(0xc7, 1, struct culvert_ext_attach)
#define CULVERT_EXT_COUNTS _IOR(0xc7, 2, struct culvert_ext_counts)
#define CULVERT_EXT_OWNER _IOWR(0xc7, 3, struct culvert_ext_owner)

#endif
