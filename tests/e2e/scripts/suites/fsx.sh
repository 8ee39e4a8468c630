printf %s '@fsx@' > large
sed 's/262144/20000/; s/65536/3000/' large > small
mkdir -p $M@below@
one() {
    mkdir $1$2 && @fsx_2@ -f $1 -N @operations@ -S $2 -P $1$2 $M@below@/file.$1.$2 > $1$2/said 2>&1
    echo "$1 $2 $? $(tail -n 1 $1$2/said)" > $1$2/result
}
for s in @seeds@; do
    one large $s &
    one small $s &
    wait
done
cat */result
stat -c '%n %s' $M@below@/file.* | sed s:.*/::
md5sum < <(cat $M@below@/file.*)
! grep -h . $(grep -L A-OK */said)
