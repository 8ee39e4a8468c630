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
         {culvert} run -v x.tar.gz:{at}/mnt:save=z.7z -- true; echo $?
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

/// To Info-ZIP, to Python and to ourselves a zip is what was saved; what it cannot hold is told, or
/// refused.
#[test]
fn a_zip_is_saved_as_one() {
    let at = place("zip");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        r#"cd {at}; mkdir t; seq 1 9000 > t/n; : > t/empty; touch -d '2001-02-03 04:05:07' t/n
         touch -d 2040-01-01 t/empty; chmod 4750 t/n; mkdir -m 700 t/d; ln -s ../n t/d/l
         echo u > t/ü; printf raw > "t/$(printf 'r\377')"; seq 1 100 > t/d/old
         (cd t; zip -qry ../x.zip n d); chmod 600 x.zip
         {culvert} run -v x.zip:{at}/mnt:save -- sh -c 'cd {at}/mnt; echo new > d/new; rm d/old
            {culvert} save {at}/t {at}/y.zip; exit 3'
         echo $?; stat -c %a x.zip; unzip -tqq x.zip && unzip -Z1 x.zip; unzip -p x.zip d/new
         unzip -tqq y.zip && zipinfo y.zip | grep -c defN; zipinfo y.zip | cut -c1-10 | LC_ALL=C sort -u
         mkdir out; cd out; unzip -qq ../y.zip; cmp n ../t/n && readlink d/l
         stat -c '%a %Y' n; cd ..
         python3 -c "import zipfile; z = zipfile.ZipFile('y.zip'); print(ascii(z.namelist()), z.testzip())"
         {culvert} run -v y.zip:{at}/mnt -- sh -c 'cd {at}/mnt; cmp n {at}/t/n; wc -l < d/l
            stat -c %Y,%s,%a empty n; ls -A | wc -l; cat r*'"#
    ));
    let modes =
        "-rw-r--r--\n-rwsr-x---\n7 files, 4\nArchive:  \nZip file s\ndrwx------\nlrwxrwxrwx\n";
    let want = format!(
        "3\n600\nd/\nd/l\nd/new\nn\nnew\n4\n{modes}../n\n750 981173107\n\
         ['d/', 'd/l', 'd/old', 'empty', 'n', 'r\\xa0', '\\xfc'] None\n\
         9000\n2208988800,0,644\n981173107,43893,4750\n5\nraw"
    );
    assert_eq!(done.text(), want, "{}", done.report());
    let done = shell(&format!(
        "cd {at}; ln t/n t/again; setfattr -n user.a -v b t/empty
         {culvert} save t y.zip 2>&1 | grep -o 'as of .*'; unzip -tqq y.zip && cp y.zip was
         mkfifo t/fifo; {culvert} save t y.zip 2>&1 | grep -o 'stays.*'; cmp y.zip was && ls -A
         cat /bin/true y.zip > y2.zip; {culvert} save t y2.zip 2>&1 | grep -o 'are not made'
         mkdir none; {culvert} save none none.zip; {culvert} run -v none.zip:{at}/mnt -- ls -A mnt
         {culvert} save none none.zip; echo $?"
    ));
    let want = "as of again (3 files)\nstays as it was: fifo: a zip archive holds no devices and \
        FIFOs\nmnt\nout\nt\nwas\nx.tar.gz\nx.zip\ny.zip\nare not made\n0\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// At each step of saving a zip.
#[test]
fn who_is_killed_while_saving_a_zip_leaves_the_old_or_the_new_one() {
    let at = place("zipped");
    let (culvert, at) = (world().culvert.display(), at.display());
    let done = shell(&format!(
        "cd {at}; mkdir old new; echo old > old/n; echo new > new/n; seq 1 300000 > new/many
         {culvert} save old x.zip
         for step in write:1 write:2 lseek:1 write:7 fchmod:1 fsync:1 rename:1 fsync:2; do
            strace -f -o log -e trace=write,lseek,fchmod,fsync,rename \
                -e inject=${{step%:*}}:signal=KILL:when=${{step#*:}} {culvert} save new x.zip
            echo $?; unzip -tqq x.zip; unzip -p x.zip n
         done 2>/dev/null
         {culvert} save new x.zip && unzip -p x.zip n; find . -name '.x*' -size +0"
    ));
    let want = ["137\nold\n".repeat(7).as_str(), "137\nnew\nnew\n"].concat();
    assert_eq!(done.text(), want, "{}", done.report());
}
