printf '#!/bin/sh -e\necho "$0" "$@"; cat '$M'/f\n' > $M/script
chmod 755 $M/script
cp -p $M/script $W/script
chmod 755 $W
@nobody@ $W/script one 'two three'
