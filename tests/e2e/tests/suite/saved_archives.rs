//! Archives that are written: `save`, and `culvert save`.

use crate::kernel_mount::shell;
use culvert_e2e::world;
use std::path::PathBuf;

/// A place with `x.tar.gz`, of a directory with a file and a link.
fn place(name: &str) -> PathBuf {
    let place = world().claim("saved", name);
    std::fs::create_dir_all(place.join("mnt")).unwrap();
    let made = shell(&format!(
        "set -e; cd {}; mkdir -p t/d; echo old > t/d/n; echo gone > t/gone; ln -s n t/d/l
         chmod 640 t/d/n; tar czf x.tar.gz -C t .; chmod 600 x.tar.gz; rm -r t; echo made",
        place.display()
    ));
    assert_eq!(made.text(), "made\n", "{}", made.report());
    place
}

#[test]
fn what_a_run_changes_is_saved_at_its_end() {
    let at = place("end");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        "cd {at}; {culvert} run -v x.tar.gz:{at}/mnt:save -- sh -c '
            cd {at}/mnt; echo new > d/n; rm gone; mkdir -m 700 made; echo x > made/x; ln d/n d/h
            setfattr -n user.a -v b made/x
            tar tzf {at}/x.tar.gz | grep -c gone; sh -c \"cat {at}/mnt/d/n\"; exit 3'
         echo status $?; ls -A; stat -c %a x.tar.gz
         mkdir out; tar xzf x.tar.gz -C out --xattrs; cd out; find . | sort
         cat d/n d/l; stat -c '%a %h' d/n made; getfattr -n user.a --only-values made/x"
    ));
    let want = "1\nnew\nstatus 3\nmnt\nx.tar.gz\n600\n.\n./d\n./d/h\n./d/l\n./d/n\n./made\n\
        ./made/x\nnew\nnew\n640 2\n700 2\nb";
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn an_archive_is_saved_by_another_name_and_another_kind() {
    let at = place("other");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        "cd {at}; cp x.tar.gz before
         {culvert} run -v x.tar.gz:{at}/mnt:save={at}/y.tar.zst -- sh -c 'echo new > {at}/mnt/d/n
            {culvert} save {at}/mnt {at}/asked.tar.xz; tar tJf {at}/asked.tar.xz | wc -l'
         cmp x.tar.gz before && zstd -qdc y.tar.zst | tar xO ./d/n
         {culvert} run -v y.tar.zst:{at}/mnt -- cat {at}/mnt/d/n
         {culvert} run -v x.tar.gz:{at}/mnt:save=z.zip -- true; echo $?
         {culvert} run -v x.tar.gz:{at}/mnt:save -- no-such-program; echo $?
         echo text > text; {culvert} save mnt text; echo $?; cat text; ls -A"
    ));
    let want = "5\nnew\nnew\n125\n127\n125\ntext\nasked.tar.xz\nbefore\nmnt\ntext\nx.tar.gz\n\
        y.tar.zst\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// What cannot be saved is kept elsewhere; who is asked to end asks the command.
#[test]
fn what_cannot_be_saved_is_kept_and_signals_reach_the_command() {
    let at = place("kept");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        "cd {at}; mkdir bin kept; export TMPDIR={at}/kept; mkfifo .x.tar.gz.culvert-1.new
         cat > bin/tar << 'END'
#!/bin/sh
case \"$*\" in *gzip*) exit 2 ;; esac
exec /bin/tar \"$@\"
END
         chmod +x bin/tar
         PATH={at}/bin:$PATH {culvert} run -v x.tar.gz:{at}/mnt:save -- \
            sh -c 'echo new > {at}/mnt/d/n' 2> said; echo $?
         grep -c 'what was changed is in {at}/kept/x.tar.gz' said
         tar xOf kept/*.tar ./d/n; tar xzOf x.tar.gz ./d/n
         {culvert} run -v x.tar.gz:{at}/mnt:save -- exec x 2> said; echo $?
         {culvert} run -v x.tar.gz:{at}/mnt:save -- \
            sh -c \"trap 'echo term > {at}/mnt/d/n; exit 5' TERM; : > begun; while :; do sleep 0.1; done\" &
         until [ -e begun ]; do sleep 0.1; done; kill $!; wait $!; echo $?
         tar xzOf x.tar.gz ./d/n; ls -A"
    ));
    let want = "125\n1\nnew\nold\n127\n5\nterm\n.x.tar.gz.culvert-1.new\nbegun\nbin\n\
        kept\nmnt\nsaid\nx.tar.gz\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// tar is one that ends the command that saves, at each step: the old archive is there, whole, and
/// the next time the new one.
#[test]
fn who_is_killed_while_saving_leaves_the_old_archive() {
    let at = place("killed");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        "cd {at}; mkdir bin new; echo new > new/n
         for step in 1 2 3; do
            cat > bin/tar <<END
#!/bin/sh
case $step in
1) kill -9 \\$PPID ;;
2) echo half; kill -9 \\$PPID ;;
3) /bin/tar \"\\$@\"; kill -9 \\$PPID ;;
esac
END
            chmod +x bin/tar
            PATH={at}/bin:$PATH {culvert} save new x.tar.gz; echo killed $?
            tar xzOf x.tar.gz ./d/n
         done 2>/dev/null
         {culvert} save new x.tar.gz && tar xzOf x.tar.gz ./n
         find . -maxdepth 1 -name '.x*' -size +0"
    ));
    let want = "killed 137\nold\nkilled 137\nold\nkilled 137\nold\nnew\n";
    assert_eq!(done.text(), want, "{}", done.report());
    // A tar that fails, or has no room, leaves it, too.
    let done = shell(&format!(
        "cd {at}; printf '#!/bin/sh\\necho half; exit 2\\n' > bin/tar
         PATH={at}/bin:$PATH {culvert} save new x.tar.gz 2>/dev/null; echo $?
         (ulimit -f 0; trap '' XFSZ; {culvert} save mnt x.tar.gz 2>/dev/null; echo $?)
         tar xzOf x.tar.gz ./n; find . -name '.x*' -size +0"
    ));
    assert_eq!(done.text(), "125\n125\nnew\n", "{}", done.report());
}
