# What a container's programs find whose root directory is an overlay of archives and memory: made
# of this machine's shell and tools, below names of its own.
set -e
cd @place@
mkdir -p base/bin base/etc base/dir/sub base/proc base/dev base/tmp app/etc out
for tool in sh bash ls cat readlink ln mv rm mkdir stat wc env grep sort chroot true head; do
    cp -L $(which $tool) base/bin/$tool
done
ldd base/bin/* | grep -o '/[^ ]*' | grep -v ':$' | sort -u | while read -r library; do
    mkdir -p base$(dirname $library); cp -L $library base$library
done
echo base > base/etc/name; ln -s /etc/name base/absolute; ln -s ../../../../etc/name base/dir/sub/up
printf '#!/bin/bash\necho script $0 $1\n' > base/bin/script; chmod 755 base/bin/script
echo app > app/etc/name
cp /sbin/ldconfig base/bin/static
tar cf base.tar -C base .; tar cf app.tar -C app .
echo outside > out/file; chmod -R a+rX .
run() { @who@ @culvert@ run --mount type=overlay,lowerdir=$PWD/app.tar:$PWD/base.tar,upperdir=memory:,target=$PWD/root \
    -v /proc:$PWD/root/proc -v /dev:$PWD/root/dev "$@"; }
within() { run --root $PWD/root -- "$@"; }
within sh -c 'pwd; ls /; cat /absolute /dir/sub/up /../../etc/name; cd /dir/sub; cat ../../etc/name; pwd -P
    readlink /proc/self/exe /proc/self/cwd /proc/self/root; script one | cat; /bin/script two
    echo new > /etc/new; ln /etc/new /etc/hard; mv /etc/hard /etc/moved; stat -c %h /etc/moved; rm /etc/new
    cat /etc/moved; mkdir /made; (cd /made; pwd); test / -ef /..; echo same $?; echo gone > /dev/null
    bash -c "exec env - /bin/sh -c \"ls -d /etc; cat /etc/name\""; head -c 4 /dev/zero | wc -c'
echo outside: $(within ls @place@/out 2>&1 | grep -c "No such file")
echo mounts: $(within grep -c @place@ /proc/self/mountinfo) $(within grep -c "^[0-9]* 0 .* / / rw" /proc/self/mountinfo)
echo static: $(within sh -c 'static 2>/dev/null; echo $?')
echo no mount: $(run --root $PWD/out -- true 2>&1 | grep -c -- "--root .*/out: ")
echo inherited: $(within sh -c 'cat <&9; cat /proc/self/fd/9' 9< out/file)
# Whoever may, by a program of their own.
echo again: $(within chroot / cat /etc/name 2>/dev/null) $(within chroot /etc true 2>&1 | grep -c "not supported")
echo chroot: $(run -- chroot $PWD/root cat /absolute 2>&1 | sed "s/.*: //")
