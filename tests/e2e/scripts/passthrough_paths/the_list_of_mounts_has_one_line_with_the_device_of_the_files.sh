for list in mountinfo mounts; do grep -c " $M " /proc/self/$list; done
: > $M/f
test "$(awk -v m=$M '$5 == m { print $3 }' /proc/self/mountinfo)" = "$(stat -c %Hd:%Ld $M/f)" \
    && echo the device
awk -v m=$M '$5 == m { sub(/.* - /, ""); @kind@ }' /proc/self/mountinfo
