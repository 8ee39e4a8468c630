# moto, an S3 server that keeps all in its memory.
export PATH=/usr/local/lib/culvert-tests/bin:$PATH
printf 'key:secret\n' > passwords
chmod 600 passwords
mkfifo told
moto_server -H 127.0.0.1 -p 0 > told 2>&1 & moto=$!
trap 'kill $moto' EXIT
# It says where it listens.
address=$(grep -m 1 -o 'http://127.0.0.1:[0-9]*' < told)
cat told > served &
curl -fsS -X PUT "$address/bucket" > said
run "type=fuse,\"command=s3fs bucket %m -f -o passwd_file=$PWD/passwords,url=$address,use_path_request_style\"" '
    cp -r tree $M/; cmp tree/big $M/tree/big; test $(readlink $M/tree/link) = file; mv $M/tree/d/f1 $M/one
    chmod 600 $M/one; rm $M/tree/file; ls $M/tree/d | wc -l; cat $M/one; stat -c %a $M/one
' > seen
test "$(tr '\n' ' ' < seen)" = '59 1 600 '
curl -fsS "$address/bucket?list-type=2" | grep -q '<Key>one</Key>'
