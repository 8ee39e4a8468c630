//! What is counted, not timed: requests that the server sees, and who runs while nobody asks.

use super::GROUP;
use super::both::{Both, source};
use crate::figure::{Figure, Judged};
use crate::tools::{numbers, sh};

/// How many requests the server sees for the same programs, as it says itself.
pub fn requests(both: &Both<'_>) -> Vec<Figure> {
    let place = both.place;
    let (log, target) = (place.path("hosts-log"), place.path("hosts-counted"));
    let (source, options) = (source(place), super::COLD.replace(',', " -o "));
    let programs: [(&str, &str); 3] = [
        (
            "requests for ls, cp, cat, mv and rm",
            "sh -c 'ls -lR DIR && cp DIR/file0 DIR/copied && cat DIR/copied DIR/copied && mv \
            DIR/copied DIR/moved && rm DIR/moved'",
        ),
        (
            "requests for tar, cp -r, grep -r, find and rm -r",
            "sh -c 'cd DIR && mkdir all && tar c listed | tar x -C all && cp -r all two && grep \
            -r x two; find two -newer all; rm -r all two'",
        ),
        (
            "requests for a compilation",
            "sh -c 'cd DIR && echo \"int main(void) { return 0; }\" > a.c && cc -c a.c && cc -o a \
            a.o && ./a && rm a a.o a.c'",
        ),
    ];
    sh(&format!("mkdir -p {target}"));
    let counted = |command: &str| {
        sh(&format!("{{ {command}; }} > {log}.out 2>&1"));
        numbers(&format!("grep -c ' opcode: ' {log}"))[0]
    };
    programs
        .into_iter()
        .map(|(what, work)| {
            let ours = counted(&format!(
                "{} run --mount 'type=fuse,\"command=bindfs -d -o {options} %s %m > {log} \
                2>&1\",source={source},target={target}' -- {}",
                place.culvert,
                work.replace("DIR", &target)
            ));
            sh(&format!(
                "bindfs -d -o {options} {source} {target} > {log} 2>&1 &
                 for i in $(seq 100); do mountpoint -q {target} && break; sleep .05; done"
            ));
            let kernel = counted(&work.replace("DIR", &target));
            sh(&format!("fusermount3 -u {target} || umount {target}"));
            Figure::new(GROUP, what, Some(kernel), ours, "", Judged::Speed(1.0))
        })
        .collect()
}

/// How often server, guardian and a program that has a file open run in three seconds in which
/// nobody asks.
pub fn idle(both: &Both<'_>) -> Vec<Figure> {
    let place = both.place;
    let (fifo, said) = (place.path("hosts-fifo"), place.path("hosts-idle"));
    let work =
        format!("sh -c 'exec 3< DIR/file0; stat DIR/file0; echo $$ > {said}; read end < {fifo}'");
    let found = numbers(&format!(
        "rm -f {fifo} {said}; mkfifo {fifo}; {} > {said}.out 2>&1 & run=$!
         for i in $(seq 100); do test -s {said} && break; sleep .05; done
         server=$(pgrep -n -f '^[a-z/]*bindfs .*-run( |$)')
         for p in $server $(ps -o ppid= $server) $(cat {said}); do ls -d /proc/$p/task/*; done > \
         {said}.all
         switches() {{ for t in $(cat {said}.all); do cat $t/status; done | awk '/ctxt/ {{ n += \
         $2 }} END {{ print n }}'; }}
         sleep 1; wc -l < {said}.all; switches; sleep 3; switches; echo > {fifo}; wait $run",
        both.run(&work)
    ));
    let what = "switches of server, guardian and program in 3 s without requests";
    let switches = found[2] - found[1];
    vec![
        Figure::new(GROUP, what, None, switches, "", Judged::Figure(0.0))
            .note(format!("{} threads", found[0])),
    ]
}
