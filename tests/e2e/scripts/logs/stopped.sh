cd @target@ || exit 1
writer=$(pgrep -f "[r]un-log .* @log@ ") || exit 2
kill -STOP $writer
python3 -c 'import os
for i in range(5999):
    os.mkdir("d")
    os.rmdir("d")'
kill -CONT $writer
# It has read all that was there when it tells what did not fit.
tries=0
until grep -q '"dropped"' @log@; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo 'it does not tell for 30 s what did not fit' >&2; exit 3; }
    sleep 0.05
done
mkdir last
