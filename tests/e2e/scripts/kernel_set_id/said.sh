chmod 777 @seen@
mkdir -p @again@
exec unshare -m bash -c 'python3 @programs@/idmapped.py @seen@ @again@ || exit 77; exec python3 @programs@/@program@ @again@ @kept@'
