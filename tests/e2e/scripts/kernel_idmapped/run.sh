mkdir -p @again@
exec unshare -m bash -c 'python3 @program@ @mounted@ @again@ || exit 77; export THERE=@there@; cd @again@; eval "$0"' '@replace@'
