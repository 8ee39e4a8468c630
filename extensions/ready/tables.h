/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The tables of the ready parts. The server alone writes them, by mapping them; the program reads,
 * and counts how often it gave a node to the kernel.
 * crates/culvert-extend/src/tables.rs and log.rs have the same structures.
 */
#ifndef CULVERT_READY_TABLES_H
#define CULVERT_READY_TABLES_H

#include <linux/fuse.h>
#include <linux/types.h>

/* Parts that are turned on: bits of ready_settings.parts. */
#define READY_METADATA 1
#define READY_XATTR 2
#define READY_LOG 4

/* So many users may be named whose requests are logged. */
#define READY_USERS 16

struct ready_settings {
	__u64 epoch;		/* attributes of another one are stale */
	__u64 names_mask;	/* sizes of the tables, less 1: powers of two */
	__u64 nodes_mask;
	__u64 xattrs_mask;
	__u64 xattr_epoch;	/* extended attributes of another one are stale */
	__u64 parts;
	__u64 users;		/* 0: requests of all users are logged */
	__u32 user[READY_USERS]; /* else of these; those that are left are the first one */
	__u64 dropped;		/* records that the log had no room for */
};

/* A name of a directory: in the place of its hash, until another one takes it. */
struct ready_name {
	__u64 version;		/* odd: nothing is here, or it is being written */
	__u64 parent;
	__u64 node;		/* 0: there is no such name */
	__u64 until;		/* CLOCK_MONOTONIC, nanoseconds; ~0: for ever; 0: never to be believed */
	__u64 parent_gone;	/* ready_node.gone of both when the record was written */
	__u64 node_gone;
	__u64 words[8];		/* the name, filled up with 0; longer ones are not kept */
};

struct ready_node {
	/* The upper half counts what is written: odd: nothing is here, or it is being written. The
	 * lower one counts the answers to LOOKUP that the server does not know of. */
	__u64 state;
	__u64 node;
	__u64 until;		/* as above, of the attributes */
	__u64 epoch;
	__u64 gone;		/* how often the driver let go of nodes that belong here */
	__u64 xattrs;		/* how often the extended attributes of such nodes changed */
	__u64 absent;		/* which xattrs are not there: bits in the order of the program's */
	struct fuse_attr attr;
};

#define READY_VALUE 128
#define READY_ABSENT (~0ull)

/* An extended attribute, or the list of their names, whose own name is empty. */
struct ready_xattr {
	__u64 version;		/* as above */
	__u64 node;
	__u64 until;
	__u64 gone;		/* ready_node.gone and .xattrs, and .xattr_epoch, when it was written */
	__u64 changes;
	__u64 epoch;
	__u64 name[8];
	__u64 length;		/* READY_ABSENT: there is none of this name */
	__u64 value[READY_VALUE / 8];
	__u64 padding;
};

/* A request, as it is logged. */
struct ready_record {
	__u64 when;		/* CLOCK_MONOTONIC, nanoseconds */
	__u64 node;
	__u32 opcode;
	__s32 verdict;		/* CULVERT_UPCALL, CULVERT_REPLY or a negative errno */
	__u32 uid, gid, pid;
	__u32 name_length;	/* longer names are cut */
	__u32 name2_length;
	__u32 padding;
	__u64 name[16];
	__u64 name2[16];
};

#endif
