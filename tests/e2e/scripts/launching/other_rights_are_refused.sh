# What lies beside a link to the command is not executed with the command's rights.
for mode in 4755 2755; do
    mkdir -m 755 $W/$mode
    cp $culvert $W/$mode/culvert
    printf '#!/bin/sh\necho evil\n' > $W/$mode/culvert-full
    chmod 755 $W/$mode/culvert-full
    chmod $mode $W/$mode/culvert
    as 65533 $W/$mode/culvert version 2>&1
    echo $?
done
rm $W/4755/culvert-full
chmod 755 $W/4755/culvert
as 65533 $W/4755/culvert version 2>&1 | sed "s,$W,W,g"
echo ${PIPESTATUS[0]}
