grep -c " $M " /proc/self/mountinfo
bash -c 'exec grep -c " $M " /proc/$$/mountinfo'
awk -v m=$M '$5 == m { print $5, substr($6, 1, 2) }' /proc/self/mountinfo
