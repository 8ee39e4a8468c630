/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the members of FUSE's private structures lie in the running kernel. */
#ifndef CULVERT_LAYOUT_H
#define CULVERT_LAYOUT_H

#include <linux/types.h>

/* Offsets in bytes; those that end with _bit, in bits. */
struct culvert_layout {
	/* struct fuse_args */
	u32 nodeid, opcode, in_numargs, out_numargs, in_args, out_args, end;
	u32 force_bit, noreply_bit, in_pages_bit, out_pages_bit, out_argvar_bit;
	u32 is_ext_bit, zero_copy_bit;	/* CULVERT_ABSENT: not in this kernel */
	u32 in_count, out_count;	/* elements of in_args, out_args */
	/* struct fuse_mount, struct fuse_conn */
	u32 mount_conn, user_ns, pid_ns, user_id, device;
	/* struct fuse_conn, or the struct fuse_chan that it points to (7.x) */
	u32 conn_chan;			/* CULVERT_ABSENT: no struct fuse_chan */
	u32 initialized, connected;
	/* struct fuse_dev: its fc, or its chan, whose conn is the connection */
	u32 dev_conn, chan_conn;
	/* The function that sends a request and waits, and which of its arguments are what. */
	const char *function;
	u32 argument_mount, argument_args;
};

#define CULVERT_ABSENT U32_MAX

int culvert_find_layout(struct culvert_layout *layout);

#endif
