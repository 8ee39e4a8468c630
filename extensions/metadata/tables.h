/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The tables of the extension `metadata`. The server alone writes them, by mapping them; the
 * program reads, and counts how often it gave a node to the kernel.
 * crates/culvert-extend/src/tables.rs has the same structures.
 */
#ifndef CULVERT_METADATA_TABLES_H
#define CULVERT_METADATA_TABLES_H

#include <linux/fuse.h>
#include <linux/types.h>

struct metadata_settings {
	__u64 epoch;		/* attributes of another one are stale */
	__u64 names_mask;	/* sizes of the tables, less 1: powers of two */
	__u64 nodes_mask;
};

/* A name of a directory: in the place of its hash, until another one takes it. */
struct metadata_name {
	__u64 version;		/* odd: nothing is here, or it is being written */
	__u64 parent;
	__u64 node;		/* 0: there is no such name */
	__u64 until;		/* CLOCK_MONOTONIC, nanoseconds; ~0: for ever; 0: never to be believed */
	__u64 parent_gone;	/* metadata_node.gone of both when the record was written */
	__u64 node_gone;
	__u64 words[8];		/* the name, filled up with 0; longer ones are not kept */
};

struct metadata_node {
	/* The upper half counts what is written: odd: nothing is here, or it is being written. The
	 * lower one counts the answers to LOOKUP that the server does not know of. */
	__u64 state;
	__u64 node;
	__u64 until;		/* as above, of the attributes */
	__u64 epoch;
	__u64 gone;		/* how often the driver let go of nodes that belong here */
	__u64 absent;		/* which xattrs are not there: bits in the order of metadata_xattrs */
	struct fuse_attr attr;
};

#endif
