exec unshare -m bash -c 'mount --bind @there@ @there@ && mount -o remount,bind,@words@ @there@ && bash -c "$0" - @there@' '@replace@'
