set -e
cd @place@
mkdir -p target/source/directory target/outside/SECRET target/mount
echo own > target/source/own
echo own > target/source/file
echo own > target/source/directory/secret
ln -s own target/source/link
chown -hR 65534:65534 target/source
chmod -R a+rwX target/source
echo SECRET > target/outside/secret
chmod 700 target/outside
cd target
@culvert@ mount -t @kind@ -o allow_other,@options@ $PWD/source mount
python3 @program@ $PWD/mount $PWD/source $PWD/outside 60
@culvert@ umount mount
