bin/again
echo $?
bin/again-static
echo $?
cd bin
for f in own again-static; do
    $M/bin/again by $f ''
    $M/bin/again by . $f
done | grep -v comm
printf '#!/bin/echo -n x\n' > s
chmod +x s
./again by . s
./again by s ''
./again by . missing
./again by . ''
chmod -x own
./again by own ''
true
