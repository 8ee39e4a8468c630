cd @target@ && for i in $(seq 50); do echo $i > $i; done
mv 1 one
ln 2 two
rm 3
cat one two 50
ls | wc -l
for task in /proc/@server@/task/*; do cat $task/comm; done | sort | uniq -c | grep -o 'queue.*' \
    | head -n $(nproc)
