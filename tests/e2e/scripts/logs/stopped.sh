cd @target@ || exit 1
writer=$(pgrep -f "[r]un-log .* @log@ ") || exit 2
kill -STOP $writer
python3 -c 'import os
for i in range(39999):
    os.mkdir("d")
    os.rmdir("d")'
kill -CONT $writer
sleep 1
mkdir last
