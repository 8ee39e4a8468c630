exec 3< /etc/passwd
for i in 1 2 3 4 5 6 7 8 9 10; do
    read -r x <&3
    cd /tmp
    test -e /etc/hostname
done
