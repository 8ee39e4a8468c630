//! A case on a kernel mount.

use super::{Case, NOBODY, Source, User};
use crate::driver::Driver;
use crate::process::{Finished, run_within};
use std::fs;
use std::path::Path;
use std::process::Command;

impl Case {
    /// Runs `argv` on a kernel mount of the one directory or archive (`culvert mount`), which ends
    /// with it. `words` are more options of the mount.
    pub fn through_kernel(&self, words: &[&str], argv: &[&str]) -> Finished {
        let [mount] = &self.mounts[..] else {
            panic!("one mount is needed");
        };
        let plain = |path: &Path| path.to_str().expect("plain").to_owned();
        let target = plain(&mount.target);
        fs::create_dir_all(&target).expect("the base directory is ours");
        let (source, options) = match &mount.source {
            Source::Archive {
                archive, options, ..
            } => (plain(archive), options.trim_start_matches(':')),
            Source::Directory { driver, holder } => {
                let tree = holder.join("culvert");
                self.fresh(&tree);
                match driver {
                    Driver::Memory => ("memory".to_owned(), ""),
                    Driver::Driven => (plain(&tree), "driven"),
                    Driver::Paths => (plain(&tree), "paths"),
                    _ => (plain(&tree), "rw"),
                }
            }
        };
        let mut all = vec!["mount", "--allow-other", "-o", "suid,dev"];
        all.extend(words);
        if !options.is_empty() {
            all.extend(["-o", options]);
        }
        all.extend([source.as_str(), target.as_str()]);
        let culvert = |words: &[&str]| {
            let mut command = Command::new(&self.world.culvert);
            command.args(words);
            run_within(command, &[], self.limit)
        };
        let up = culvert(&all);
        assert_eq!(up.status, "exit 0", "{}", up.report());
        // What is in memory is the server's, who is root.
        if self.user == User::Nobody && matches!(mount.source, Source::Directory { .. }) {
            std::os::unix::fs::chown(&target, Some(NOBODY), Some(NOBODY)).expect("we are root");
        }
        let done = run_within(self.command(None, argv), &self.input, self.limit);
        let down = culvert(&["umount", &target]);
        if down.status != "exit 0" {
            culvert(&["umount", "--lazy", &target]);
            panic!(
                "in use after the program: {}\n{}",
                down.report(),
                done.report()
            );
        }
        done
    }

    /// Runs `argv` natively and on a kernel mount, and demands the same result.
    #[track_caller]
    pub fn same_on_kernel_mount(&self, argv: &[&str]) -> Finished {
        self.same_on_kernel_mount_with(&[], argv)
    }

    /// The same, with more options of the mount.
    #[track_caller]
    pub fn same_on_kernel_mount_with(&self, words: &[&str], argv: &[&str]) -> Finished {
        let native = self.natively(argv);
        let ours = self.through_kernel(words, argv);
        self.compare(native, ours, argv, |argv| self.through_kernel(words, argv))
    }
}
