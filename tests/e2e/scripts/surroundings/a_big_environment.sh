for i in $(seq 1000); do export V$i=$(printf %500s x); done
c sh -c 'cat $M/hello.txt; env | grep -c ^V'
c env -i sh -c "cat $M/hello.txt"
