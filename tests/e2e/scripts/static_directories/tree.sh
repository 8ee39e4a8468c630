cd $M && mkdir -p d/sub/deep d/empty && echo one > d/one && echo two > d/sub/two \
    && ln -s one d/link && ln d/one d/sub/hard && mkfifo d/pipe
chmod 640 d/one
seq 1000 > d/many
touch -d @1000000000 d/sub/two
printf 'busybox find . | sort\n' > script
chmod +x script
