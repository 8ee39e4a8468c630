chown 65534 @target@
exec setpriv --reuid=65534 --regid=65534 --clear-groups @culvert@ mount @source@ @target@
