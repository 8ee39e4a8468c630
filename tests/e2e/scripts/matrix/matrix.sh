printf '#!/bin/sh\nexec @program@ "$@"\n' > script
chmod +x script
exec @program@ $M @program@ @fixed@ ./script
