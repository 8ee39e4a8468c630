//! The interface of libfuse, 2.6 to 3.14, by paths and by nodes, for sources that are compiled
//! against `include/`: a program or a shared object that serves a file system by it speaks the FUSE
//! protocol with whoever has the other end of its /dev/fuse, the kernel or a run.
//!
//! The functions have names of their own (`culvert_fuse_…`), which the headers give them: what was
//! built with libfuse's headers never meets structures that it does not know.
#![warn(missing_docs)]

mod abi;
mod arguments;
mod buffers;
mod command_line;
mod connection;
mod dispatch;
mod files;
mod high;
mod log;
mod mounting;
mod mutex;
mod notify;
mod option_list;
mod reply;
mod request;
mod serving;
mod session;
mod signals;
mod threads;
mod version_2;
mod wants;
