//! Sources for libfuse, as Debian has them, by Culvert in a run and by libfuse behind the kernel:
//! nobody sees a difference. What scripts/prerequisites could not fetch is passed over.

use crate::fuse_sources::Place;
use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{not_tested, world};
use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Where scripts/prerequisites unpacks them.
const SOURCES: &str = "/usr/src/culvert";

/// What is done in a directory that a source passes through.
const CHANGES: &str = "echo one > a; echo two >> a; cat a; mkdir -p d/e; mv a d/e/b; \
    ln d/e/b d/hard && ln -s hard d/soft && cat d/soft && readlink d/soft; chmod 640 d/e/b; \
    stat -c %a d/e/b; touch -d @5 d/e/b; stat -c %Y d/e/b; truncate -s 3 d/e/b; cat d/e/b; echo; \
    ls -R; stat -c '%F %s' d/e/b d/soft; cat none 2>&1; mkdir d 2>&1; rmdir d 2>&1; \
    exec 5<> x; rm x; echo kept >&5; exec 5>&-; rm -r d; \
    for i in $(seq 300); do echo $i > $i; done; cat [0-9]* | md5sum; \
    ls | wc -l; rm [0-9]*; find . -type f | sort | xargs md5sum; ls -A";

/// What is seen of a tree that is read.
const LOOKS: &str = "find . -printf '%p %y %m %s %l\\n' | sort; \
    find . -type f | sort | xargs -d '\\n' md5sum; cat none 2>&1; \
    tail -c 5000 x/n | head -c 99 | md5sum";

/// A source, and how it is built and mounted. In all texts `$src` is the source, `$base` the test's
/// directory, which has `source` and `target`.
struct Source {
    name: &'static str,
    /// Its directory below [`SOURCES`].
    directory: &'static str,
    /// Makes `$so` by Culvert's headers; `$cflags` are they.
    ours: &'static str,
    /// Makes the server by libfuse's, where Debian has none of the same version.
    theirs: &'static str,
    /// The file that is loaded.
    so: &'static str,
    /// Words of the mount, behind type and target.
    mount: &'static str,
    /// The server's command.
    serve: &'static str,
    /// What is done there.
    script: &'static str,
}

const EXAMPLE: Source = Source {
    name: "",
    directory: "fuse3/example",
    ours: "cc $words -shared -fPIC $cflags $src/$name.c -o $so",
    theirs: "cc $words $src/$name.c -o $base/server $(pkg-config --cflags --libs fuse3)",
    so: "fs.so",
    mount: "",
    serve: "$base/server $base/target",
    script: "cd .$base/source; changes",
};

const HELLO: &str = "ls -l | wc -l; cat hello; stat -c '%a %s %h' hello; cat none 2>&1; \
    echo x 2>&1 > hello; dd if=hello bs=5 skip=1 2> /dev/null; ls hello/x 2>&1; mkdir d 2>&1";

const VERSION_2: &str = "cc $words $src/$name.c -o $base/server $(pkg-config --cflags --libs fuse)";

/// erofsfuse, which is no package of its own everywhere; by hand, without what nobody needs here.
const EROFS: &str = "cc -w -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DLZ4_ENABLED -DHAVE_MEMRCHR \
    -DHAVE_LINUX_TYPES_H -DHAVE_SYS_IOCTL_H -DHAVE_SYS_SYSMACROS_H -DHAVE_PREAD64 -DHAVE_PWRITE64 \
    -DFUSE_USE_VERSION=26 -DPACKAGE_VERSION='\"1.5\"' -I. -Iinclude fuse/main.c \
    $(ls lib/*.c | grep -v liblzma)";

const ALL: &[Source] = &[
    Source {
        name: "hello",
        script: HELLO,
        ..EXAMPLE
    },
    Source {
        name: "hello_ll",
        script: HELLO,
        ..EXAMPLE
    },
    Source {
        name: "passthrough",
        ..EXAMPLE
    },
    Source {
        name: "passthrough_fh",
        ..EXAMPLE
    },
    Source {
        name: "passthrough_ll",
        ..EXAMPLE
    },
    Source {
        name: "hello",
        directory: "fuse/example",
        theirs: VERSION_2,
        script: HELLO,
        ..EXAMPLE
    },
    Source {
        name: "fusexmp",
        directory: "fuse/example",
        theirs: VERSION_2,
        ..EXAMPLE
    },
    Source {
        name: "bindfs",
        directory: "bindfs",
        ours: "configured && cp src/bindfs $so",
        theirs: "",
        mount: ",source=$base/source",
        serve: "bindfs $base/source $base/target",
        script: "changes",
        ..EXAMPLE
    },
    Source {
        name: "loggedfs",
        directory: "loggedfs",
        ours: "make -s easyloggingdir=/usr/include \
            CC=\"g++ -w -O1 -fPIC $cflags\" LDFLAGS=\"-shared -lpcre $(xml2-config --libs)\" \
            && cp loggedfs $so",
        theirs: "",
        // It serves what lies below its target.
        mount: "",
        serve: "loggedfs $base/target",
        script: "changes",
        ..EXAMPLE
    },
    Source {
        name: "convmvfs",
        directory: "fuse-convmvfs",
        ours: "configured && cp src/convmvfs $so",
        theirs: "",
        mount: ",srcdir=$base/source,icharset=utf8,ocharset=utf8",
        serve: "convmvfs $base/target -o srcdir=$base/source,icharset=utf8,ocharset=utf8",
        script: "changes",
        ..EXAMPLE
    },
    Source {
        name: "posixovl",
        directory: "fuse-posixovl",
        ours: "configured && cp mount.posixovl $so",
        theirs: "",
        so: "mount.posixovl.so",
        mount: ",source=$base/source",
        serve: "mount.posixovl -S $base/source $base/target",
        script: "changes",
    },
    Source {
        name: "fuseiso",
        directory: "fuseiso",
        ours: "cc -w -O1 -shared -fPIC -I. -DPACKAGE='\"fuseiso\"' -DVERSION='\"1\"' $cflags \
            $(pkg-config --cflags glib-2.0) src/*.c -o $so $(pkg-config --libs glib-2.0) -lz",
        theirs: "",
        mount: ",source=$base/image.iso",
        serve: "fuseiso $base/image.iso $base/target",
        script: LOOKS,
        ..EXAMPLE
    },
    Source {
        name: "fuse2fs",
        directory: "e2fsprogs",
        ours: "touch misc/config.h debugfs/config.h e2fsck/config.h lib/config.h && \
            cc -w -O1 -shared -fPIC -D_GNU_SOURCE -DDEBUGFS -DHAVE_UNISTD_H -DHAVE_ERRNO_H \
            -DHAVE_SYS_TYPES_H -Ilib -Ie2fsck -Idebugfs $cflags misc/fuse2fs.c debugfs/journal.c \
            e2fsck/recovery.c e2fsck/revoke.c -o $so -lext2fs -lcom_err -lpthread -luuid -lblkid",
        theirs: "",
        mount: ",source=$base/image.ext4",
        serve: "fuse2fs $base/image.ext4 $base/target",
        script: "changes",
        ..EXAMPLE
    },
    Source {
        name: "exfat",
        directory: "fuse-exfat",
        ours: "touch config.h && cc -w -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DVERSION='\"1.3\"' \
            -I. -Ilibexfat -shared -fPIC $cflags fuse/main.c libexfat/*.c -o $so",
        // libfuse serves this one from a block device alone.
        theirs: "loop=$(losetup --find --show $base/image.exfat)",
        so: "mount.exfat-fuse.so",
        mount: ",source=$base/image.exfat",
        serve: "mount.exfat-fuse $loop $base/target > $base/said; s=$?; losetup --detach $loop; \
            (exit $s)",
        script: "changes",
    },
    Source {
        name: "erofsfuse",
        directory: "erofs-utils",
        ours: "touch config.h && $erofs -shared -fPIC $cflags -o $so -llz4",
        theirs: "cd $base/ours && $erofs $(pkg-config --cflags fuse) -o $base/server -lfuse -llz4",
        mount: ",source=$base/image.erofs",
        serve: "$base/server $base/image.erofs $base/target",
        script: LOOKS,
        ..EXAMPLE
    },
    Source {
        name: "squashfuse",
        directory: "squashfuse",
        ours: "configured && cp squashfuse $so",
        theirs: "",
        mount: ",source=$base/image.squashfs",
        serve: "squashfuse $base/image.squashfs $base/target",
        script: LOOKS,
        ..EXAMPLE
    },
    Source {
        name: "squashfuse_ll",
        directory: "squashfuse",
        ours: "configured && cp squashfuse_ll $so",
        theirs: "",
        mount: ",source=$base/image.squashfs",
        serve: "squashfuse_ll $base/image.squashfs $base/target",
        script: LOOKS,
        ..EXAMPLE
    },
    Source {
        name: "archivemount",
        directory: "archivemount",
        ours: "configured && cp archivemount $so",
        theirs: "",
        mount: ",source=$base/image.tar",
        serve: "archivemount $base/image.tar $base/target",
        script: LOOKS,
        ..EXAMPLE
    },
    Source {
        name: "sshfs",
        directory: "sshfs-fuse",
        ours: "touch config.h && cc -w -O1 -shared -fPIC -I. -DFUSE_USE_VERSION=31 \
            -DPACKAGE_VERSION='\"3\"' -DIDMAP_DEFAULT='\"none\"' $cflags \
            $(pkg-config --cflags glib-2.0) sshfs.c cache.c -o $so \
            $(pkg-config --libs glib-2.0 gthread-2.0)",
        theirs: "",
        mount: ",source=host:$base/source,ssh_command=$base/ssh",
        serve: "sshfs -o ssh_command=$base/ssh host:$base/source $base/target",
        script: "changes",
        ..EXAMPLE
    },
    Source {
        name: "unionfs",
        directory: "unionfs-fuse",
        ours: "make -s -C src CFLAGS='-O1 -fPIC' LDFLAGS=-Wl,-shared unionfs && cp src/unionfs $so",
        theirs: "",
        mount: ",source=$base/upper=RW:$base/source=RO,cow",
        serve: "unionfs -o cow $base/upper=RW:$base/source=RO $base/target",
        script: "changes",
        ..EXAMPLE
    },
];

/// What each has to read, and functions of the scripts.
const BEFORE: &str = r#"
mkdir -p $base/source/x $base/upper $base/pc; seq 5000 > $base/source/x/n; chmod 755 $base/source
ln -s n $base/source/x/link; echo hidden > "$base/source/a name"
case $mount in
*.ext4*) mke2fs -q -t ext4 $base/image.ext4 16M 2> /dev/null ;;
*.exfat*) truncate -s 16M $base/image.exfat && mkfs.exfat $base/image.exfat > /dev/null ;;
*.erofs*) mkfs.erofs -zlz4 $base/image.erofs $base/source > /dev/null ;;
*.iso*) genisoimage -quiet -R -o $base/image.iso $base/source ;;
*.squashfs*) mksquashfs $base/source $base/image.squashfs -quiet -no-progress > /dev/null ;;
*ssh_command*)
  printf '#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n' > $base/ssh && chmod 755 $base/ssh ;;
*.tar*) tar -C $base/source -cf $base/image.tar . ;;
esac
for package in fuse fuse3; do $culvert config --pkg-config $package > $base/pc/$package.pc; done
export PKG_CONFIG_PATH=$base/pc
configured() {
  { [ -x configure ] || autoreconf -fi; } > $base/log 2>&1 &&
  ./configure -q CFLAGS='-w -O1 -fPIC' CXXFLAGS='-w -O1 -fPIC' >> $base/log 2>&1 &&
  make -s LDFLAGS=-Wl,-shared >> $base/log 2>&1 || { tail -n 20 $base/log; return 1; }
}
cp -a $src $base/ours; cd $base/ours
"#;

impl Source {
    /// `text` with its words filled in.
    fn filled(&self, text: &str, base: &str) -> String {
        let words = "-w -D_GNU_SOURCE -DHAVE_UTIMENSAT -DHAVE_SETXATTR";
        let all = [
            ("$base", base),
            ("$src", &format!("{SOURCES}/{}", self.directory)),
            ("$so", &format!("{base}/{}", self.so)),
            ("$name", self.name),
            ("$words", words),
            ("$erofs", EROFS),
            ("$mount", &format!("'{}'", self.mount)),
            ("$culvert", &world().culvert.display().to_string()),
            ("$cflags", "$(culvert_ config --cflags)"),
            ("culvert_", &world().culvert.display().to_string()),
            ("changes", CHANGES),
        ];
        let fill = |text: String, (word, by): &(&str, &str)| text.replace(word, by);
        all.iter().fold(text.to_owned(), fill)
    }

    fn is_there(&self) -> bool {
        let server = self.serve.split(' ').next().unwrap_or_default();
        let known = server.starts_with('$') || culvert_e2e::installed(server);
        let loops = !self.theirs.contains("losetup") || shell("losetup --find").status == "exit 0";
        known && loops && Path::new(SOURCES).join(self.directory).is_dir()
    }

    /// By both, in turn.
    #[track_caller]
    fn compare(&self) {
        let place = Place::new(&format!(
            "beside-{}",
            self.directory.replace('/', "-") + self.name
        ));
        let base = place.base.display().to_string();
        let built = shell(&format!(
            "{}\n{} && chmod 755 {base}/{}",
            self.filled(BEFORE, &base),
            self.filled(self.ours, &base),
            self.so
        ));
        assert_eq!(built.status, "exit 0", "{}: {}", self.name, built.report());
        let script = self.filled(self.script, &base);
        let mount = format!(
            "type={base}/{},target={base}/target{}",
            self.so,
            self.filled(self.mount, &base)
        );
        let run = format!("cd {base}/target; {script}");
        let ours = culvert(&["run", "--mount", &mount, "--", "bash", "-c", &run]);
        let server = match self.theirs {
            "" => "true".to_owned(),
            build => self.filled(build, &base),
        };
        let theirs = shell(&format!(
            "{server} && {} > {base}/served 2>&1 && cd {base}/target && {{ {script}; }}; cd /; \
             for i in $(seq 50); do umount {base}/target && break; sleep 0.1; done",
            self.filled(self.serve, &base)
        ));
        let (a, b) = (ours.report(), theirs.report());
        assert_eq!(ours.text(), theirs.text(), "{}: {a}{b}", self.name);
        assert!(ours.text().lines().count() > 5, "{}: {a}{b}", self.name);
    }
}

#[test]
fn sources_do_what_they_do_behind_the_kernel() {
    if !world().is_root() || !Path::new("/dev/fuse").exists() {
        return not_tested("sources for libfuse beside the kernel: that wants root and /dev/fuse");
    }
    let (there, missing): (Vec<_>, Vec<_>) = ALL.iter().partition(|source| source.is_there());
    for source in missing {
        not_tested(format!("{}: its source is not there", source.name));
    }
    // Compilers wait for each other on few processors only.
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(source) = there.get(done.fetch_add(1, Relaxed)) {
                    source.compare();
                }
            });
        }
    });
}
