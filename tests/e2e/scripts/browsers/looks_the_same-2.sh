export HOME=$W/home XDG_RUNTIME_DIR=$W/run
mkdir -p -m 700 $HOME $XDG_RUNTIME_DIR
D=@page@/pages
F=@profile@/profile
mkdir -p $D $F
printf %s "$PAGE" > $D/page.html
printf %s "$STYLE" > $D/style.css
printf %s "$SCRIPT" > $D/script.js
@run@ > $W/said 2>&1
echo $?
md5sum < $W/shot.png || cat $W/said
ls $D
test -n "$(ls $F)" && echo a profile
