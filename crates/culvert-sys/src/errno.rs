//! Error numbers, as the kernel returns them (errno(3), `include/uapi/asm-generic/errno-base.h`).

use core::fmt;

/// A Linux error number, 1 to 4095.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Errno(i32);

impl Errno {
    /// The error number `raw`, which must lie in 1..=4095.
    pub const fn new(raw: i32) -> Self {
        assert!(raw > 0 && raw < 4096);
        Self(raw)
    }

    /// The number itself, positive.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// What a system call leaves in rax: the negated number.
    pub const fn negated(self) -> isize {
        -(self.0 as isize)
    }

    /// Splits a kernel return value: -4095..=-1 is an error, everything else a result
    /// (`IS_ERR_VALUE`).
    #[inline]
    pub const fn check(result: isize) -> Result<usize, Self> {
        if result < 0 && result >= -4095 {
            Err(Self(-result as i32))
        } else {
            Ok(result as usize)
        }
    }
}

macro_rules! errnos {
    ($($name:ident = $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self(linux_raw_sys::errno::$name as i32);)*
            /// The symbolic name, `EUNKNOWN` for a number without one.
            pub const fn name(self) -> &'static str {
                $(if self.0 == Self::$name.0 { return stringify!($name); })*
                "EUNKNOWN"
            }
            /// The error number called `name` ("EIO").
            pub fn named(name: &[u8]) -> Option<Self> {
                match name {
                    $(name if name == stringify!($name).as_bytes() => Some(Self::$name),)*
                    _ => None,
                }
            }
            /// The words of strerror(3).
            pub const fn text(self) -> &'static str {
                $(if self.0 == Self::$name.0 { return $text; })*
                "Unknown error"
            }
        }
    };
}

errnos! {
    EPERM = "Operation not permitted";
    ENOENT = "No such file or directory";
    ESRCH = "No such process";
    EINTR = "Interrupted system call";
    EIO = "Input/output error";
    ENXIO = "No such device or address";
    E2BIG = "Argument list too long";
    ENOEXEC = "Exec format error";
    EBADF = "Bad file descriptor";
    ECHILD = "No child processes";
    EAGAIN = "Resource temporarily unavailable";
    ENOMEM = "Cannot allocate memory";
    EACCES = "Permission denied";
    EFAULT = "Bad address";
    ENOTBLK = "Block device required";
    EBUSY = "Device or resource busy";
    EEXIST = "File exists";
    EXDEV = "Invalid cross-device link";
    ENODEV = "No such device";
    ENOTDIR = "Not a directory";
    EISDIR = "Is a directory";
    EINVAL = "Invalid argument";
    ENFILE = "Too many open files in system";
    EMFILE = "Too many open files";
    ENOTTY = "Inappropriate ioctl for device";
    ETXTBSY = "Text file busy";
    EFBIG = "File too large";
    ENOSPC = "No space left on device";
    ESPIPE = "Illegal seek";
    EROFS = "Read-only file system";
    EMLINK = "Too many links";
    EPIPE = "Broken pipe";
    EDOM = "Numerical argument out of domain";
    ERANGE = "Numerical result out of range";
    EDEADLK = "Resource deadlock avoided";
    ENAMETOOLONG = "File name too long";
    ENOLCK = "No locks available";
    ENOSYS = "Function not implemented";
    ENOTEMPTY = "Directory not empty";
    ELOOP = "Too many levels of symbolic links";
    ENODATA = "No data available";
    EOVERFLOW = "Value too large for defined data type";
    EILSEQ = "Invalid or incomplete multibyte or wide character";
    EUSERS = "Too many users";
    ENOTSOCK = "Socket operation on non-socket";
    EOPNOTSUPP = "Operation not supported";
    ESTALE = "Stale file handle";
    EDQUOT = "Disk quota exceeded";
    ECONNREFUSED = "Connection refused";
    ENOTCONN = "Transport endpoint is not connected";
    ETIMEDOUT = "Connection timed out";
    EBADMSG = "Bad message";
    ELIBBAD = "Accessing a corrupted shared library";
    ENOMSG = "No message of desired type";
    EIDRM = "Identifier removed";
    ECHRNG = "Channel number out of range";
    EL2NSYNC = "Level 2 not synchronized";
    EL3HLT = "Level 3 halted";
    EL3RST = "Level 3 reset";
    ELNRNG = "Link number out of range";
    EUNATCH = "Protocol driver not attached";
    ENOCSI = "No CSI structure available";
    EL2HLT = "Level 2 halted";
    EBADE = "Invalid exchange";
    EBADR = "Invalid request descriptor";
    EXFULL = "Exchange full";
    ENOANO = "No anode";
    EBADRQC = "Invalid request code";
    EBADSLT = "Invalid slot";
    EBFONT = "Bad font file format";
    ENOSTR = "Device not a stream";
    ETIME = "Timer expired";
    ENOSR = "Out of streams resources";
    ENONET = "Machine is not on the network";
    ENOPKG = "Package not installed";
    EREMOTE = "Object is remote";
    ENOLINK = "Link has been severed";
    EADV = "Advertise error";
    ESRMNT = "Srmount error";
    ECOMM = "Communication error on send";
    EPROTO = "Protocol error";
    EMULTIHOP = "Multihop attempted";
    EDOTDOT = "RFS specific error";
    ENOTUNIQ = "Name not unique on network";
    EBADFD = "File descriptor in bad state";
    EREMCHG = "Remote address changed";
    ELIBACC = "Can not access a needed shared library";
    ELIBSCN = ".lib section in a.out corrupted";
    ELIBMAX = "Attempting to link in too many shared libraries";
    ELIBEXEC = "Cannot exec a shared library directly";
    ERESTART = "Interrupted system call should be restarted";
    ESTRPIPE = "Streams pipe error";
    EDESTADDRREQ = "Destination address required";
    EMSGSIZE = "Message too long";
    EPROTOTYPE = "Protocol wrong type for socket";
    ENOPROTOOPT = "Protocol not available";
    EPROTONOSUPPORT = "Protocol not supported";
    ESOCKTNOSUPPORT = "Socket type not supported";
    EPFNOSUPPORT = "Protocol family not supported";
    EAFNOSUPPORT = "Address family not supported by protocol";
    EADDRINUSE = "Address already in use";
    EADDRNOTAVAIL = "Cannot assign requested address";
    ENETDOWN = "Network is down";
    ENETUNREACH = "Network is unreachable";
    ENETRESET = "Network dropped connection on reset";
    ECONNABORTED = "Software caused connection abort";
    ECONNRESET = "Connection reset by peer";
    ENOBUFS = "No buffer space available";
    EISCONN = "Transport endpoint is already connected";
    ESHUTDOWN = "Cannot send after transport endpoint shutdown";
    ETOOMANYREFS = "Too many references: cannot splice";
    EHOSTDOWN = "Host is down";
    EHOSTUNREACH = "No route to host";
    EALREADY = "Operation already in progress";
    EINPROGRESS = "Operation now in progress";
    EUCLEAN = "Structure needs cleaning";
    ENOTNAM = "Not a XENIX named type file";
    ENAVAIL = "No XENIX semaphores available";
    EISNAM = "Is a named type file";
    EREMOTEIO = "Remote I/O error";
    ENOMEDIUM = "No medium found";
    EMEDIUMTYPE = "Wrong medium type";
    ECANCELED = "Operation canceled";
    ENOKEY = "Required key not available";
    EKEYEXPIRED = "Key has expired";
    EKEYREVOKED = "Key has been revoked";
    EKEYREJECTED = "Key was rejected by service";
    EOWNERDEAD = "Owner died";
    ENOTRECOVERABLE = "State not recoverable";
    ERFKILL = "Operation not possible due to RF-kill";
    EHWPOISON = "Memory page has hardware error";
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Errno {}
