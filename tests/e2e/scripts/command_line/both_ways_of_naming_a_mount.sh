cp @source@ x.tar
$B/bin/culvert run -v x.tar:here cat here/a \
    && $B/bin/culvert run -v ./x.tar:$W/new -- sh -c 'cat new/a; ls new'
find . -type d
