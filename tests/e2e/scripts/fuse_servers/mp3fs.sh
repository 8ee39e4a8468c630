# A second of a tone, which it shows as MP3.
head -c 44100 /dev/urandom > noise
flac --silent --force-raw-format --endian=little --sign=signed --channels=1 --bps=16 --sample-rate=22050 \
    -o tree/d/noise.flac noise
run type=fuse.mp3fs,source=$PWD/tree '
    ls $M/d | grep -qx noise.mp3; cp $M/d/noise.mp3 .; cmp tree/big $M/big; touch $M/new 2> said && exit 1
    test $(stat -c %s noise.mp3) = $(stat -c %s $M/d/noise.mp3)
'
test "$(head -c 3 noise.mp3)" = ID3
test "$(wc -c < noise.mp3)" -gt 4000
