/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * What the author of an extension includes. An extension is a program in C for the kernel's BPF
 * machine (clang -O2 -target bpf): functions that get a request of FUSE before the file system's
 * server does, and say what becomes of it.
 *
 *     static __always_inline int getxattr(struct culvert_request *request)
 *     {
 *             return request->uid == 1000 ? -ENODATA : CULVERT_UPCALL;
 *     }
 *
 *     CULVERT_EXTENSION(
 *             CULVERT_ON(GETXATTR, getxattr)
 *     )
 *
 * A handler returns CULVERT_UPCALL (the server is asked), CULVERT_REPLY (what it wrote by
 * culvert_out() is the answer), or a negative errno. What is not handled is an upcall.
 * Offsets into a request must be constants; names are compared and copied as whole words.
 */
#ifndef CULVERT_EXTEND_H
#define CULVERT_EXTEND_H

#include <errno.h>
#include <linux/bpf.h>
#include <linux/fuse.h>
#include <linux/types.h>

#include "fuse-ext.h"

#define SEC(name) __attribute__((section(name), used))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Maps, in the form that the loader reads: the kernel's type, sizes and flags. */
struct culvert_map {
	__u32 type, key_size, value_size, max_entries, flags;
};
#define CULVERT_MAP(name, kind, key, value, count, map_flags) \
	struct culvert_map name SEC("maps") = \
		{ kind, sizeof(key), sizeof(value), count, map_flags }

/*
 * A map by the numbers of nodes (request->nodeid), for what the server may not read: it puts and
 * removes, and reads nothing. What was used longest ago goes when it is full.
 */
#define CULVERT_INODE_MAP(name, value, count) \
	CULVERT_MAP(name, BPF_MAP_TYPE_LRU_HASH, __u64, value, count, BPF_F_WRONLY)

/* A ring buffer of so many bytes, a power of two and whole pages. */
#define CULVERT_RING(name, bytes) \
	struct culvert_map name SEC("maps") = { BPF_MAP_TYPE_RINGBUF, 0, 0, bytes, 0 }

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) =
	(void *)BPF_FUNC_map_lookup_elem;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*const bpf_map_delete_elem)(void *map, const void *key) =
	(void *)BPF_FUNC_map_delete_elem;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) =
	(void *)BPF_FUNC_ringbuf_reserve;
static void (*const bpf_ringbuf_submit)(void *record, __u64 flags) =
	(void *)BPF_FUNC_ringbuf_submit;

/* What the request says besides names: culvert_in(request, fuse_getattr_in)->getattr_flags. */
#define culvert_in(request, type) ((const struct type *)(request)->in)

/* The answer, which is 0 until it is written to. */
#define culvert_out(request, type) \
	((request)->out_length = sizeof(struct type), (struct type *)(request)->out)

/*
 * The request, read anew. Its pointer cannot be put on the stack, which the compiler does when
 * values live on over a call of a helper: a long handler takes the context, and this after each.
 */
#define culvert_again(context) (*(struct culvert_request *volatile *)(context))

/* Read once, where others write. */
#define culvert_read(place) (*(const volatile __typeof__(place) *)&(place))
/* The compiler moves nothing over this; x86-64 keeps loads in order. */
#define culvert_barrier() __asm__ volatile("" ::: "memory")

#ifdef CULVERT_PATHS
/*
 * Handlers that decide by path, as FUSE's high-level interface has them: who says
 *
 *     #define CULVERT_PATHS 4096
 *
 * before this file is included has the paths of that many nodes, which the server keeps. A path is
 * known as long as all names in it may be believed (valid=), is relative to the mount, without a
 * slash at either end, and has 255 bytes at most; the rest of `text` is 0, so that it can be the key
 * of a map. What is not known, a file with several names and what a rename is moving has none: that
 * is for the server (CULVERT_UPCALL). It is valid until the next one is asked for.
 */
struct culvert_path {
	__u64 length;
	char text[256];
	char room[512];
};

struct culvert_path_record {
	__u64 version, node, until, length, words[32];
};

/* Before the first place stands how many there are; the server fills it. */
CULVERT_MAP(culvert_paths, BPF_MAP_TYPE_ARRAY, __u32, struct culvert_path_record,
	    (CULVERT_PATHS) + 1, BPF_F_MMAPABLE);
/* Where processors put paths together: one behind the last of these has none. */
CULVERT_MAP(culvert_path_room, BPF_MAP_TYPE_ARRAY, __u32, struct culvert_path, 256, 0);

static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)BPF_FUNC_get_smp_processor_id;

/* The path of a node; null: it is not known. */
static __always_inline struct culvert_path *culvert_path_of(__u64 node)
{
	__u32 zero = 0, index = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns(), version, hash, places;
	struct culvert_path_record *record = bpf_map_lookup_elem(&culvert_paths, &zero);
	struct culvert_path *path = bpf_map_lookup_elem(&culvert_path_room, &index);
	int i;

	if (!record || !path)
		return 0;
	places = culvert_read(record->node);
	if (!places)
		return 0;
	hash = node * 0x9e3779b97f4a7c15ull;
	index = 1 + ((hash ^ hash >> 32) & (places - 1));
	record = bpf_map_lookup_elem(&culvert_paths, &index);
	if (!record)
		return 0;
	version = culvert_read(record->version);
	culvert_barrier();
	if (version & 1 || culvert_read(record->node) != node || culvert_read(record->until) <= now)
		return 0;
	path->length = culvert_read(record->length);
#pragma unroll
	for (i = 0; i < 32; i++)
		((__u64 *)path->text)[i] = culvert_read(record->words[i]);
	culvert_barrier();
	return culvert_read(record->version) == version ? path : 0;
}

/* The path that the request's name has in its node; null: that is not known, or it is too long. */
static __always_inline struct culvert_path *culvert_path_below(struct culvert_request **context)
{
	struct culvert_path *path = culvert_path_of(culvert_again(context)->nodeid);
	struct culvert_request *request = culvert_again(context);
	__u64 at;
	int i;

	if (!path)
		return 0;
	at = path->length;
	if (at) {
		/* The verifier sees bounds in what is and-ed. */
		__asm__ volatile("%0 &= 255" : "+r"(at));
		path->text[at] = '/';
		at++;
	}
	if (at + request->name_length >= sizeof(path->text))
		return 0;
	path->length = at + request->name_length;
	__asm__ volatile("%0 &= 511" : "+r"(at));
#pragma unroll
	for (i = 0; i < 32; i++)
		*(__u64 *)(path->text + at + 8 * i) = ((const __u64 *)request->name)[i];
	return path;
}
#endif

#define CULVERT_ON(operation, handler) \
	case FUSE_##operation: \
		return handler(request);

#define CULVERT_EXTENSION(handlers) \
	SEC("culvert") int culvert_extension(struct culvert_request **context) \
	{ \
		struct culvert_request *request = *context; \
		switch (request->opcode) { \
			handlers \
		} \
		return CULVERT_UPCALL; \
	} \
	char culvert_license[] SEC("license") = "GPL";

#endif
