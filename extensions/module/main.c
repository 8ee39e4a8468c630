// SPDX-License-Identifier: GPL-2.0-only
/*
 * culvert-fuse-ext: a program of a FUSE file system's author answers requests inside the kernel.
 *
 * The distribution's own FUSE is hooked by ftrace where it sends a request and waits for the
 * answer. If the connection has a program, and the program answers, the caller gets that answer and
 * the server hears nothing; else FUSE goes on as if nothing had been.
 */
#include <linux/bpf.h>
#include <linux/cred.h>
#include <linux/filter.h>
#include <linux/ftrace.h>
#include <linux/fuse.h>
#include <linux/hashtable.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/user_namespace.h>
#include <linux/version.h>

#include "../include/culvert/fuse-ext.h"
#include "layout.h"

#if !defined(CONFIG_X86_64) || !defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS)
#error "x86-64 with CONFIG_DYNAMIC_FTRACE_WITH_REGS alone"
#endif

/* FUSE's own, exported; their structures are private. */
struct fuse_conn;
extern const struct file_operations fuse_dev_operations;
struct fuse_conn *fuse_conn_get(struct fuse_conn *fc);
void fuse_conn_put(struct fuse_conn *fc);

/* `fuse_arg` and `fuse_in_arg`, as layout.c has found them. */
struct argument {
	u32 size;
	void *value;
};

/* A program of a connection; belongs to an open file of the device. */
struct attachment {
	struct hlist_node node;
	const void *connection;		/* counted */
	struct bpf_prog *program;	/* counted */
	atomic64_t asked, answered, misfits;
};

static struct culvert_layout layout __ro_after_init;
/* By connection; changed under `changes`, read where preemption is off. */
static DEFINE_HASHTABLE(attachments, 6);
static unsigned int attached;
static bool hooked;
/* ftrace does not let go of the hook: the module stays. */
static bool kept;
static DEFINE_MUTEX(changes);
/* What the program of this processor works on: a request is too large for the stack. */
static DEFINE_PER_CPU(struct culvert_request, request);

#define AT(base, offset, type) (*(type *)((char *)(base) + (offset)))

static bool has(const void *args, u32 bit)
{
	return bit != CULVERT_ABSENT && ((const u8 *)args)[bit / 8] >> bit % 8 & 1;
}

static bool is_usable(const void *connection)
{
	const void *state = connection;

	if (layout.conn_chan != CULVERT_ABSENT)
		state = READ_ONCE(AT(connection, layout.conn_chan, const void *));
	return state && READ_ONCE(AT(state, layout.initialized, int)) &&
		READ_ONCE(AT(state, layout.connected, unsigned int));
}

/* How many names end the request, and how many bytes stand before them (fs/fuse/dir.c, xattr.c). */
static int names_of(u32 opcode, u32 *before)
{
	*before = 0;
	switch (opcode) {
	case FUSE_LOOKUP: case FUSE_UNLINK: case FUSE_RMDIR: case FUSE_REMOVEXATTR:
		return 1;
	case FUSE_SYMLINK:
		return 2;
	case FUSE_RENAME:
		*before = sizeof(struct fuse_rename_in);
		return 2;
	case FUSE_RENAME2:
		*before = sizeof(struct fuse_rename2_in);
		return 2;
	case FUSE_LINK:
		*before = sizeof(struct fuse_link_in);
		return 1;
	case FUSE_MKNOD:
		*before = sizeof(struct fuse_mknod_in);
		return 1;
	case FUSE_MKDIR:
		*before = sizeof(struct fuse_mkdir_in);
		return 1;
	case FUSE_CREATE: case FUSE_TMPFILE:
		*before = sizeof(struct fuse_create_in);
		return 1;
	case FUSE_GETXATTR:
		*before = sizeof(struct fuse_getxattr_in);
		return 1;
	default:
		return 0;
	}
}

/*
 * The pieces of a request, one after the other as a server reads them, are put where programs find
 * them. Which piece holds what differs between versions: since 6.15 a name and the byte that ends
 * it are two pieces.
 */
static bool gather(struct culvert_request *to, const struct argument *pieces, u32 count)
{
	u32 before, at = 0, ended = 0, i, j;
	int names = names_of(to->opcode, &before);

	for (i = 0; i < count; i++) {
		const u8 *bytes = pieces[i].value;

		for (j = 0; j < pieces[i].size; j++, at++) {
			if (!names || at < before) {
				/* Values of SETXATTR and data of ioctl(2) are cut. */
				if (at < sizeof(to->in))
					to->in[to->in_length++] = bytes[j];
			} else if (ended >= names) {
				return false;
			} else if (!bytes[j]) {
				ended++;
			} else {
				u32 *length = ended ? &to->name2_length : &to->name_length;

				/* A link's target may be longer than a name. */
				if (*length >= sizeof(to->name) - 1)
					return false;
				(ended ? to->name2 : to->name)[(*length)++] = bytes[j];
			}
		}
	}
	return ended == names;
}

/* Hands the answer out; its length, or 0 where there is none, as fuse_simple_request() returns. */
static bool scatter(const struct culvert_request *from, struct argument *pieces, u32 count,
		    bool varies, long *result)
{
	u32 at = 0, fixed = 0, last = 0, i;

	if (count)
		last = count - varies;
	for (i = 0; i < last; i++)
		fixed += pieces[i].size;
	if (from->out_length > sizeof(from->out) || from->out_length < fixed ||
	    (!varies && from->out_length != fixed) ||
	    (varies && from->out_length - fixed > pieces[last].size))
		return false;
	for (i = 0; i < last; i++) {
		memcpy(pieces[i].value, from->out + at, pieces[i].size);
		at += pieces[i].size;
	}
	*result = 0;
	if (varies) {
		pieces[last].size = from->out_length - fixed;
		memcpy(pieces[last].value, from->out + at, pieces[last].size);
		*result = pieces[last].size;
	}
	return true;
}

/*
 * Stands for the function when the program has answered; entered with its arguments. The answer has
 * waited in args->end, which is null in all requests that are answered here, and not in a register:
 * trampolines of BPF programs that trace the same function run in between, and keep arguments only.
 */
static notrace noinline long answered(unsigned long first, unsigned long second,
				      unsigned long third)
{
	unsigned long given[] = { first, second, third };
	void *args = (void *)given[layout.argument_args];
	long result = AT(args, layout.end, long);

	AT(args, layout.end, void *) = NULL;
	/* What is left to do here end() waits for. */
	module_put(THIS_MODULE);
	return result;
}

/* Whether the program answers, and with what. Preemption is off. */
static bool answer(struct attachment *to, void *args, long *result)
{
	struct culvert_request *asked = this_cpu_ptr(&request);
	const void *connection = to->connection;
	u32 in_count = AT(args, layout.in_numargs, u8), out_count = AT(args, layout.out_numargs, u8);
	struct argument *in = &AT(args, layout.in_args, struct argument);
	struct argument *out = &AT(args, layout.out_args, struct argument);
	bool varies = has(args, layout.out_argvar_bit);
	u64 context[1] = { (u64)asked };
	int verdict;
	u32 i;

	if (has(args, layout.force_bit) || has(args, layout.noreply_bit) ||
	    has(args, layout.in_pages_bit) || has(args, layout.out_pages_bit) ||
	    has(args, layout.is_ext_bit) || has(args, layout.zero_copy_bit) ||
	    AT(args, layout.end, void *) || in_count > layout.in_count ||
	    out_count > layout.out_count || (varies && !out_count) || !is_usable(connection))
		return false;
	memset(asked, 0, sizeof(*asked));
	asked->opcode = AT(args, layout.opcode, u32);
	asked->nodeid = AT(args, layout.nodeid, u64);
	asked->uid = from_kuid(AT(connection, layout.user_ns, struct user_namespace *),
			       current_fsuid());
	asked->gid = from_kgid(AT(connection, layout.user_ns, struct user_namespace *),
			       current_fsgid());
	asked->pid = pid_nr_ns(task_pid(current),
			       AT(connection, layout.pid_ns, struct pid_namespace *));
	if (asked->uid == (u32)-1 || asked->gid == (u32)-1 || !gather(asked, in, in_count))
		return false;
	for (i = 0; i < out_count; i++)
		asked->out_size += out[i].size;
	atomic64_inc(&to->asked);
	verdict = (int)bpf_prog_run(to->program, context);
	if (verdict == CULVERT_UPCALL)
		return false;
	/* As fuse_dev_do_write() takes them from a server. */
	if (verdict < 0 && verdict > -512)
		*result = verdict;
	else if (verdict != CULVERT_REPLY || !scatter(asked, out, out_count, varies, result)) {
		atomic64_inc(&to->misfits);
		return false;
	}
	atomic64_inc(&to->answered);
	return true;
}

static void notrace hook(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
			 struct ftrace_regs *fregs)
{
	struct pt_regs *regs = ftrace_get_regs(fregs);
	struct attachment *one;
	void *connection, *args;
	long result;

	if (WARN_ON_ONCE(!regs))
		return;
	connection = AT(regs_get_kernel_argument(regs, layout.argument_mount), layout.mount_conn,
			void *);
	preempt_disable_notrace();
	rcu_read_lock();
	hash_for_each_possible_rcu(attachments, one, node, (unsigned long)connection) {
		if (one->connection != connection)
			continue;
		args = (void *)regs_get_kernel_argument(regs, layout.argument_args);
		/* A tracing program may sleep on the way to answered(). */
		if (!try_module_get(THIS_MODULE))
			break;
		if (answer(one, args, &result)) {
			AT(args, layout.end, long) = result;
			regs->ip = (unsigned long)answered;
		} else {
			module_put(THIS_MODULE);
		}
		break;
	}
	rcu_read_unlock();
	preempt_enable_notrace();
}

static struct ftrace_ops ops = {
	.func = hook,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION,
};

/* The connection of an open /dev/fuse, counted. */
static const void *connection_of(int descriptor)
{
	struct fd file = fdget(descriptor);
	struct file *opened;
	void *dev, *connection = NULL;

#ifdef fd_file
	opened = fd_file(file);
#else
	opened = file.file;
#endif
	if (!opened)
		return ERR_PTR(-EBADF);
	if (opened->f_op == &fuse_dev_operations) {
		dev = READ_ONCE(opened->private_data);
		/* Neither null nor one of the small numbers that mark what is not mounted yet. */
		if ((long)dev < 0)
			connection = READ_ONCE(AT(dev, layout.dev_conn, void *));
		if ((long)connection < 0 && layout.conn_chan != CULVERT_ABSENT)
			connection = READ_ONCE(AT(connection, layout.chan_conn, void *));
		if ((long)connection < 0)
			fuse_conn_get(connection);
		else
			connection = ERR_PTR(-ENOTCONN);
	} else {
		connection = ERR_PTR(-EINVAL);
	}
	fdput(file);
	return connection;
}

static bool may_sleep(const struct bpf_prog *program)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	return program->sleepable;
#else
	return program->aux->sleepable;
#endif
}

static int attach(struct file *file, const struct culvert_ext_attach *asked)
{
	struct attachment *new, *other;
	int wrong = -EBUSY;

	if (asked->version != CULVERT_EXT_VERSION || asked->flags)
		return -EOPNOTSUPP;
	new = kzalloc(sizeof(*new), GFP_KERNEL);
	if (!new)
		return -ENOMEM;
	new->program = bpf_prog_get_type_dev(asked->program, BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE,
					     false);
	if (IS_ERR(new->program)) {
		wrong = PTR_ERR(new->program);
		goto no_program;
	}
	/*
	 * How far it reads and writes, of the request and of the arguments, of which there is one;
	 * constants, which the verifier has found.
	 */
	if (new->program->aux->max_tp_access > sizeof(struct culvert_request) ||
	    new->program->aux->max_ctx_offset > sizeof(u64)) {
		wrong = -E2BIG;
		goto no_connection;
	}
	if (may_sleep(new->program)) {
		wrong = -EINVAL;
		goto no_connection;
	}
	new->connection = connection_of(asked->fuse);
	if (IS_ERR(new->connection)) {
		wrong = PTR_ERR(new->connection);
		goto no_connection;
	}
	mutex_lock(&changes);
	if (file->private_data)
		goto busy;
	hash_for_each_possible(attachments, other, node, (unsigned long)new->connection) {
		if (other->connection == new->connection)
			goto busy;
	}
	/* EBUSY: somebody else (a livepatch) changes this function. */
	if (!hooked) {
		wrong = register_ftrace_function(&ops);
		if (wrong)
			goto busy;
		hooked = true;
	}
	attached++;
	hash_add_rcu(attachments, &new->node, (unsigned long)new->connection);
	file->private_data = new;
	mutex_unlock(&changes);
	return 0;

busy:
	mutex_unlock(&changes);
	fuse_conn_put((struct fuse_conn *)new->connection);
no_connection:
	bpf_prog_put(new->program);
no_program:
	kfree(new);
	return wrong;
}

static int owner(struct culvert_ext_owner *of)
{
	const void *connection = connection_of(of->fuse);
	dev_t number;

	if (IS_ERR(connection))
		return PTR_ERR(connection);
	number = AT(connection, layout.device, dev_t);
	of->uid = from_kuid(current_user_ns(), AT(connection, layout.user_id, kuid_t));
	of->major = MAJOR(number);
	of->minor = MINOR(number);
	fuse_conn_put((struct fuse_conn *)connection);
	return 0;
}

static int device_open(struct inode *inode, struct file *file)
{
	/* Set to the device by misc_open(). */
	file->private_data = NULL;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct attachment *old = file->private_data;

	if (!old)
		return 0;
	mutex_lock(&changes);
	hash_del_rcu(&old->node);
	/* Waits until nobody is in the hook. */
	if (!--attached) {
		if (!unregister_ftrace_function(&ops)) {
			hooked = false;
		} else {
			/* The hook finds no program, and its code has to stay. */
			pr_err("culvert-fuse-ext: %s stays hooked\n", layout.function);
			if (!kept)
				__module_get(THIS_MODULE);
			kept = true;
		}
	}
	mutex_unlock(&changes);
	synchronize_rcu();
	bpf_prog_put(old->program);
	fuse_conn_put((struct fuse_conn *)old->connection);
	kfree(old);
	return 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct culvert_ext_attach asked;
	struct culvert_ext_counts counts;
	struct culvert_ext_owner of;
	struct attachment *mine;
	int wrong;

	switch (command) {
	case CULVERT_EXT_ATTACH:
		/* A program answers for everybody who uses the mount. */
		if (!capable(CAP_SYS_ADMIN))
			return -EPERM;
		if (copy_from_user(&asked, (void __user *)argument, sizeof(asked)))
			return -EFAULT;
		return attach(file, &asked);
	case CULVERT_EXT_COUNTS:
		mutex_lock(&changes);
		mine = file->private_data;
		if (mine) {
			counts.asked = atomic64_read(&mine->asked);
			counts.answered = atomic64_read(&mine->answered);
			counts.misfits = atomic64_read(&mine->misfits);
		}
		mutex_unlock(&changes);
		if (!mine)
			return -ENOTCONN;
		return copy_to_user((void __user *)argument, &counts, sizeof(counts)) ? -EFAULT : 0;
	case CULVERT_EXT_OWNER:
		if (!capable(CAP_SYS_ADMIN))
			return -EPERM;
		if (copy_from_user(&of, (void __user *)argument, sizeof(of)))
			return -EFAULT;
		wrong = owner(&of);
		return wrong ?: copy_to_user((void __user *)argument, &of, sizeof(of)) ? -EFAULT : 0;
	default:
		return -ENOTTY;
	}
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "culvert-fuse-ext",
	.mode = 0600,
	.fops = &operations,
};

static int __init begin(void)
{
	int wrong = culvert_find_layout(&layout);

	if (wrong) {
		pr_err("culvert-fuse-ext: FUSE of this kernel is not as it is known here: %d\n", wrong);
		return wrong;
	}
	wrong = ftrace_set_filter(&ops, (unsigned char *)layout.function, strlen(layout.function), 1);
	if (wrong) {
		pr_err("culvert-fuse-ext: %s cannot be hooked: %d\n", layout.function, wrong);
		return wrong;
	}
	wrong = misc_register(&device);
	if (wrong)
		ftrace_free_filter(&ops);
	return wrong;
}

static void __exit end(void)
{
	misc_deregister(&device);
	ftrace_free_filter(&ops);
	/* Until nobody is at the end of answered(). */
	synchronize_rcu_tasks();
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The Culvert authors");
MODULE_DESCRIPTION("Programs of a FUSE file system's author, run inside the kernel");
