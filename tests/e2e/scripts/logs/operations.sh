cd @target@ || exit 1
echo one > made
cat made made > /dev/null
(echo two; /bin/echo three) >> made
ln made linked
mkdir directory
mv linked directory/moved
ln -s made symbolic
readlink symbolic
chmod 640 made
chown 1:2 made
chown :3 made
truncate -s 5 made
mkfifo fifo
cat missing
: > "$(printf 'two\nlines')"
rm directory/moved
rmdir directory
python3 -c 'import os
f = os.open("made", os.O_RDWR)
os.pwrite(f, b"x", 3 << 30)
os.fsync(f)
os.close(f)
os.rename("made", "renamed")'
