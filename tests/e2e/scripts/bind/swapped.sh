cd @place@
mkdir -p target/source/real target/outside target/mount
echo own > target/source/own
echo own > target/source/real/secret
echo secret > target/outside/secret
chmod 600 target/outside/secret
chmod 777 target/source
cd target
@culvert@ mount -t bind -o allow_other,resolve-symlinks,perms=a+rX,create-as-user $PWD/source mount
python3 @program@ $PWD/mount $PWD/source $PWD/outside 1500
@culvert@ umount mount
