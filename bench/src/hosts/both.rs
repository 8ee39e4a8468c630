//! A server behind the kernel, and the same for a run.

use super::{GROUP, ROUNDS};
use crate::figure::{Figure, Judged, Rounded};
use crate::tools::{Place, median, numbers, sh, succeeds};

/// The server behind the kernel and for a run, with the same options.
pub struct Both<'a> {
    pub place: &'a Place,
    /// Before each command.
    before: String,
    /// Where it is mounted; behind the kernel only.
    pub target: String,
    /// What `--mount` says beside the target.
    pub mount: String,
    /// How its kernel mount ends.
    is_mounted: bool,
}

/// The directory that is shown, with a directory of 100 names in it.
pub fn source(place: &Place) -> String {
    let source = place.path("hosts-source");
    let listed = format!("{source}/listed");
    sh(&format!(
        "test -d {listed} || {{ mkdir -p {listed} && cd {listed} && touch $(seq -f name%g 100); }}"
    ));
    source
}

impl<'a> Both<'a> {
    /// A server that `kernel` mounts at TARGET, and that `mount` says for a run; none where it does
    /// not mount here.
    pub fn of(
        place: &'a Place,
        name: &str,
        before: &str,
        kernel: &str,
        mount: String,
    ) -> Option<Self> {
        let target = place.path(&format!("hosts-{name}"));
        let command = kernel.replace("TARGET", &target);
        let mounted = succeeds(&format!(
            "mkdir -p {target} {target}-run && {before} {command}"
        ));
        mounted.then_some(Self {
            place,
            before: before.to_owned(),
            target,
            mount,
            is_mounted: true,
        })
    }

    /// bindfs of [`source`].
    pub fn bindfs(place: &'a Place, name: &str, options: &str, before: &str) -> Option<Self> {
        let source = source(place);
        let kernel = format!("bindfs -o {options} {source} TARGET");
        let mount = format!("type=fuse.bindfs,{options},source={source}");
        Self::of(place, name, before, &kernel, mount)
    }

    /// The same, with an option more for the run.
    pub fn with(&self, option: &str) -> Self {
        Self {
            place: self.place,
            before: self.before.clone(),
            target: self.target.clone(),
            mount: format!("{},{option}", self.mount),
            is_mounted: false,
        }
    }

    /// A command that runs `work` on the server for a run.
    pub fn run(&self, work: &str) -> String {
        let (culvert, target) = (&self.place.culvert, format!("{}-run", self.target));
        format!(
            "{} {culvert} run --mount '{},target={target}' -- {}",
            self.before,
            self.mount,
            work.replace("DIR", &target)
        )
    }

    /// A command that does `work` behind the kernel.
    pub fn kernel(&self, work: &str) -> String {
        format!("{} {}", self.before, work.replace("DIR", &self.target))
    }

    /// Microseconds of `work`, a line for `programs/hosts.c` with DIR for the directory.
    pub fn figure(&self, work: &str, what: &str, judged: Judged) -> Figure {
        let work = format!("{} {work}", self.place.program("hosts"));
        self.timed(ROUNDS, &work, (what, "µs"), judged)
    }

    /// What `work` prints, in turn.
    pub fn timed(
        &self,
        rounds: usize,
        work: &str,
        (what, unit): (&str, &'static str),
        judged: Judged,
    ) -> Figure {
        let (kernel, ours) = (self.kernel(work), self.run(work));
        let (mut taken, mut speeds) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..rounds {
            let (kernel, ours) = (numbers(&kernel)[0], numbers(&ours)[0]);
            taken[0].push(kernel);
            taken[1].push(ours);
            speeds.push(kernel / ours);
        }
        speeds.sort_by(f64::total_cmp);
        let [native, ours] = taken.map(median);
        let (low, high) = (Rounded(speeds[0]), Rounded(speeds[rounds - 1]));
        Figure::new(GROUP, what, Some(native), ours, unit, judged)
            .note(format!("rounds {low} to {high}"))
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        if self.is_mounted {
            let target = &self.target;
            sh(&format!("fusermount3 -u {target} || umount {target}"));
        }
    }
}
