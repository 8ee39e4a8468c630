// SPDX-License-Identifier: GPL-2.0-only
/*
 * FUSE's structures are private, and differ from version to version. Their layout is read from the
 * type information (BTF) of the kernel that runs: /sys/kernel/btf/vmlinux, and /sys/kernel/btf/fuse
 * where FUSE is a module. A structure that is not as this file knows it is refused.
 */
#include <linux/btf.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "layout.h"

/* The types of one file; those of a module go on where the kernel's end. */
struct blob {
	void *data;
	size_t size;
	const u8 *types;
	u32 types_length;
	const char *strings;
	u32 strings_length;
	u32 *offsets;		/* of each type, from first_id on */
	u32 first_id, count;
	u32 first_string;
};

struct types {
	struct blob kernel, module;
};

static void release(struct blob *blob)
{
	vfree(blob->data);
	kvfree(blob->offsets);
	memset(blob, 0, sizeof(*blob));
}

/* Bytes of the type at `type`; 0: of a kind that is not known. */
static u32 length_of(const struct btf_type *type)
{
	u32 count = BTF_INFO_VLEN(type->info), more;

	/* By number: the kernel that this is compiled for may be older than the one that runs. */
	switch (BTF_INFO_KIND(type->info)) {
	case 1:			/* INT */
	case 14:		/* VAR */
	case 17:		/* DECL_TAG */
		more = 4;
		break;
	case 2: case 7: case 8: case 9: case 10: case 11: case 12: case 16: case 18:
		/* PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG */
		more = 0;
		break;
	case 3:			/* ARRAY */
		more = sizeof(struct btf_array);
		break;
	case 4: case 5: case 15: case 19:	/* STRUCT, UNION, DATASEC, ENUM64 */
		more = 12 * count;
		break;
	case 6: case 13:	/* ENUM, FUNC_PROTO */
		more = 8 * count;
		break;
	default:
		return 0;
	}
	return sizeof(*type) + more;
}

/* Longer than the types of any kernel so far, by four times. */
#define LONGEST (32u << 20)

/* All of a file of sysfs; how long it is it does not say in every kernel. */
static int read_file(struct blob *blob, const char *path)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t at = 0;
	ssize_t got;

	if (IS_ERR(file))
		return PTR_ERR(file);
	blob->data = vmalloc(LONGEST);
	got = blob->data ? 1 : -ENOMEM;
	while (got > 0 && at < LONGEST)
		got = kernel_read(file, blob->data + at, LONGEST - at, &at);
	filp_close(file, NULL);
	if (got)
		pr_err("culvert-fuse-ext: %s cannot be read: %zd\n", path, got);
	blob->size = at;
	return got < 0 ? got : got ? -EFBIG : 0;
}

static int read_blob(struct blob *blob, const char *path, const struct blob *before)
{
	const struct btf_header *header;
	u32 at, room, length;
	size_t got;
	int wrong;

	wrong = read_file(blob, path);
	if (wrong)
		return wrong;
	got = blob->size;
	header = blob->data;
	/* Newer headers may be longer, and so is the structure then. */
	if (got < offsetofend(struct btf_header, str_len) || header->magic != BTF_MAGIC ||
	    header->hdr_len > got || header->hdr_len < offsetofend(struct btf_header, str_len) ||
	    header->type_off > got - header->hdr_len ||
	    header->type_len > got - header->hdr_len - header->type_off ||
	    header->str_off > got - header->hdr_len ||
	    header->str_len > got - header->hdr_len - header->str_off || !header->str_len)
		return -EINVAL;
	blob->types = blob->data + header->hdr_len + header->type_off;
	blob->types_length = header->type_len;
	blob->strings = blob->data + header->hdr_len + header->str_off;
	blob->strings_length = header->str_len;
	if (blob->strings[blob->strings_length - 1])
		return -EINVAL;
	blob->first_id = before ? before->first_id + before->count : 1;
	blob->first_string = before ? before->strings_length : 0;
	room = blob->types_length / sizeof(struct btf_type);
	blob->offsets = kvmalloc_array(room + 1, sizeof(u32), GFP_KERNEL);
	if (!blob->offsets)
		return -ENOMEM;
	for (at = 0; at < blob->types_length; at += length) {
		if (blob->types_length - at < sizeof(struct btf_type))
			return -EINVAL;
		length = length_of((const void *)(blob->types + at));
		if (!length || length > blob->types_length - at)
			return -EINVAL;
		blob->offsets[blob->count++] = at;
	}
	return 0;
}

static const struct btf_type *type_of(const struct types *types, u32 id)
{
	const struct blob *blob = &types->kernel;

	if (types->module.count && id >= types->module.first_id)
		blob = &types->module;
	if (id < blob->first_id || id - blob->first_id >= blob->count)
		return NULL;
	return (const void *)(blob->types + blob->offsets[id - blob->first_id]);
}

static const char *text(const struct types *types, u32 offset)
{
	if (offset < types->kernel.strings_length)
		return types->kernel.strings + offset;
	offset -= types->kernel.strings_length;
	return types->module.count && offset < types->module.strings_length ?
		types->module.strings + offset : "";
}

/* The one type of this kind and name; structures without members are declarations. */
static const struct btf_type *named(const struct types *types, u32 kind, const char *name)
{
	const struct blob *blobs[] = { &types->module, &types->kernel };
	u32 i, n;

	for (n = 0; n < ARRAY_SIZE(blobs); n++) {
		for (i = 0; i < blobs[n]->count; i++) {
			const struct btf_type *type =
				(const void *)(blobs[n]->types + blobs[n]->offsets[i]);

			if (BTF_INFO_KIND(type->info) == kind && !strcmp(text(types, type->name_off), name))
				return type;
		}
	}
	return NULL;
}

/* The type behind typedef, const and the like. */
static const struct btf_type *plain(const struct types *types, u32 id)
{
	const struct btf_type *type = type_of(types, id);
	int depth;

	for (depth = 0; type && depth < 16; depth++) {
		switch (BTF_INFO_KIND(type->info)) {
		case BTF_KIND_TYPEDEF: case BTF_KIND_VOLATILE: case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT: case 18:
			type = type_of(types, type->type);
			break;
		default:
			return type;
		}
	}
	return NULL;
}

enum what { POINTER, INTEGER, BIT, ARRAY, STRUCT };

static const struct btf_member *member(const struct types *types, const struct btf_type *type,
				       const char *name)
{
	const struct btf_member *members = (const void *)(type + 1);
	u32 i;

	for (i = 0; i < BTF_INFO_VLEN(type->info); i++) {
		if (!strcmp(text(types, members[i].name_off), name))
			return &members[i];
	}
	return NULL;
}

/* Where `name` lies in `type`, if it is what is expected: of `size` bytes, or so many elements. */
static int find(const struct types *types, const struct btf_type *type, const char *name,
		enum what what, u32 size, u32 *found, u32 *count)
{
	const struct btf_member *one = member(types, type, name);
	const struct btf_type *of, *element;
	const struct btf_array *array;
	u32 offset, bits;

	if (!one)
		return -ENOENT;
	offset = BTF_INFO_KFLAG(type->info) ? BTF_MEMBER_BIT_OFFSET(one->offset) : one->offset;
	bits = BTF_INFO_KFLAG(type->info) ? BTF_MEMBER_BITFIELD_SIZE(one->offset) : 0;
	of = plain(types, one->type);
	if (!of)
		return -EINVAL;
	if (what == BIT) {
		*found = offset;
		return bits == 1 ? 0 : -EINVAL;
	}
	if (bits || offset % 8)
		return -EINVAL;
	*found = offset / 8;
	switch (what) {
	case POINTER:
		return BTF_INFO_KIND(of->info) == BTF_KIND_PTR ? 0 : -EINVAL;
	case INTEGER:
		return BTF_INFO_KIND(of->info) == BTF_KIND_INT && of->size == size ? 0 : -EINVAL;
	case STRUCT:
		return BTF_INFO_KIND(of->info) == BTF_KIND_STRUCT && of->size == size ? 0 : -EINVAL;
	default:
		array = (const void *)(of + 1);
		if (BTF_INFO_KIND(of->info) != BTF_KIND_ARRAY)
			return -EINVAL;
		element = plain(types, array->type);
		*count = array->nelems;
		return element && element->size == size ? 0 : -EINVAL;
	}
}

/* All that a request has in some version; what is new may change what a request is. */
static const char *const known_args[] = {
	"nodeid", "opcode", "uid", "gid", "pid", "in_numargs", "out_numargs", "ext_idx", "force",
	"noreply", "nocreds", "in_pages", "out_pages", "user_pages", "out_argvar", "page_zeroing",
	"page_replace", "may_block", "is_ext", "is_pinned", "invalidate_vmap", "abort_on_kill",
	"zero_copy", "in_args", "out_args", "end", "vmap_base",
};

static int check_args(const struct types *types, const struct btf_type *args)
{
	const struct btf_member *members = (const void *)(args + 1);
	u32 i;

	for (i = 0; i < BTF_INFO_VLEN(args->info); i++) {
		const char *name = text(types, members[i].name_off);

		if (match_string(known_args, ARRAY_SIZE(known_args), name) < 0) {
			pr_err("culvert-fuse-ext: fuse_args.%s is not known\n", name);
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

/* `fuse_arg` and `fuse_in_arg`: a size, then a pointer. */
static bool is_pair(const struct types *types, const char *name)
{
	const struct btf_type *type = named(types, BTF_KIND_STRUCT, name);
	u32 size, value;

	return type && type->size == 16 && !find(types, type, "size", INTEGER, 4, &size, NULL) &&
		!find(types, type, "value", POINTER, 8, &value, NULL) && size == 0 && value == 8;
}

static int find_function(const struct types *types, struct culvert_layout *layout)
{
	static const char *const names[] = { "__fuse_simple_request", "fuse_simple_request" };
	const struct btf_type *function = NULL, *proto;
	const struct btf_param *parameters;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(names) && !function; i++) {
		function = named(types, BTF_KIND_FUNC, names[i]);
		layout->function = names[i];
	}
	proto = function ? type_of(types, function->type) : NULL;
	if (!proto || BTF_INFO_KIND(proto->info) != BTF_KIND_FUNC_PROTO ||
	    BTF_INFO_VLEN(proto->info) > 3)
		return -EOPNOTSUPP;
	parameters = (const void *)(proto + 1);
	layout->argument_mount = layout->argument_args = CULVERT_ABSENT;
	for (i = 0; i < BTF_INFO_VLEN(proto->info); i++) {
		const char *name = text(types, parameters[i].name_off);

		if (!strcmp(name, "fm"))
			layout->argument_mount = i;
		else if (!strcmp(name, "args"))
			layout->argument_args = i;
		else if (strcmp(name, "idmap"))
			return -EOPNOTSUPP;
	}
	return layout->argument_mount == CULVERT_ABSENT || layout->argument_args == CULVERT_ABSENT ?
		-EOPNOTSUPP : 0;
}

static int find_all(const struct types *types, struct culvert_layout *layout)
{
	const struct btf_type *args = named(types, BTF_KIND_STRUCT, "fuse_args");
	const struct btf_type *mount = named(types, BTF_KIND_STRUCT, "fuse_mount");
	const struct btf_type *conn = named(types, BTF_KIND_STRUCT, "fuse_conn");
	const struct btf_type *dev = named(types, BTF_KIND_STRUCT, "fuse_dev");
	const struct btf_type *chan = named(types, BTF_KIND_STRUCT, "fuse_chan");
	const struct btf_type *state;
	int wrong;

	if (!args || !mount || !conn || !dev || !is_pair(types, "fuse_arg") ||
	    !is_pair(types, "fuse_in_arg"))
		return -EOPNOTSUPP;
	wrong = check_args(types, args);
	if (wrong)
		return wrong;
	layout->is_ext_bit = layout->zero_copy_bit = CULVERT_ABSENT;
	wrong = find(types, args, "is_ext", BIT, 0, &layout->is_ext_bit, NULL);
	if (wrong && wrong != -ENOENT)
		return wrong;
	wrong = find(types, args, "zero_copy", BIT, 0, &layout->zero_copy_bit, NULL);
	if (wrong && wrong != -ENOENT)
		return wrong;
	layout->conn_chan = CULVERT_ABSENT;
	state = conn;
	if (!find(types, conn, "chan", POINTER, 8, &layout->conn_chan, NULL)) {
		if (!chan || find(types, chan, "conn", POINTER, 8, &layout->chan_conn, NULL))
			return -EOPNOTSUPP;
		state = chan;
	}
	return find(types, args, "nodeid", INTEGER, 8, &layout->nodeid, NULL) ?:
		find(types, args, "opcode", INTEGER, 4, &layout->opcode, NULL) ?:
		find(types, args, "in_numargs", INTEGER, 1, &layout->in_numargs, NULL) ?:
		find(types, args, "out_numargs", INTEGER, 1, &layout->out_numargs, NULL) ?:
		find(types, args, "in_args", ARRAY, 16, &layout->in_args, &layout->in_count) ?:
		find(types, args, "out_args", ARRAY, 16, &layout->out_args, &layout->out_count) ?:
		find(types, args, "end", POINTER, 8, &layout->end, NULL) ?:
		find(types, args, "force", BIT, 0, &layout->force_bit, NULL) ?:
		find(types, args, "noreply", BIT, 0, &layout->noreply_bit, NULL) ?:
		find(types, args, "in_pages", BIT, 0, &layout->in_pages_bit, NULL) ?:
		find(types, args, "out_pages", BIT, 0, &layout->out_pages_bit, NULL) ?:
		find(types, args, "out_argvar", BIT, 0, &layout->out_argvar_bit, NULL) ?:
		find(types, mount, "fc", POINTER, 8, &layout->mount_conn, NULL) ?:
		find(types, conn, "user_ns", POINTER, 8, &layout->user_ns, NULL) ?:
		find(types, conn, "pid_ns", POINTER, 8, &layout->pid_ns, NULL) ?:
		find(types, conn, "user_id", STRUCT, sizeof(kuid_t), &layout->user_id, NULL) ?:
		find(types, conn, "dev", INTEGER, 4, &layout->device, NULL) ?:
		find(types, state, "initialized", INTEGER, 4, &layout->initialized, NULL) ?:
		find(types, state, "connected", INTEGER, 4, &layout->connected, NULL) ?:
		find(types, dev, state == chan ? "chan" : "fc", POINTER, 8, &layout->dev_conn, NULL) ?:
		find_function(types, layout);
}

int culvert_find_layout(struct culvert_layout *layout)
{
	struct types types = {};
	int wrong;

	wrong = read_blob(&types.kernel, "/sys/kernel/btf/vmlinux", NULL);
	if (!wrong) {
		wrong = read_blob(&types.module, "/sys/kernel/btf/fuse", &types.kernel);
		/* FUSE is built in. */
		if (wrong == -ENOENT) {
			release(&types.module);
			wrong = 0;
		}
	}
	if (!wrong)
		wrong = find_all(&types, layout);
	release(&types.kernel);
	release(&types.module);
	return wrong;
}
