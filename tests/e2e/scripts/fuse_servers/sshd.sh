# A real sshd, the user's own, on an address that no other test has.
export address=127.$(($$ / 250 % 250 + 1)).$(($$ % 250 + 1)).1
ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -q -t ed25519 -N '' -f host
mkdir source
printf '%s\n' "ListenAddress $address" 'Port 2222' "HostKey $PWD/host" \
    "AuthorizedKeysFile $PWD/key.pub" 'StrictModes no' 'UsePAM yes' 'PidFile none' \
    'Subsystem sftp internal-sftp' > config
printf '%s\n' 'Host *' 'Port 2222' "IdentityFile $PWD/key" 'IdentitiesOnly yes' 'BatchMode yes' \
    'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' > client
$(PATH=$PATH:/usr/sbin command -v sshd) -D -e -f "$PWD/config" 2> told & sshd=$!
trap 'kill $sshd' EXIT
until (exec 3<> "/dev/tcp/$address/2222") 2> /dev/null; do
    kill -0 $sshd || { cat told; exit 1; }
    sleep .1
done
run "type=fuse.sshfs,source=$address:$PWD/source,reconnect,ssh_command=ssh -F $PWD/client" '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file
    ls $M/tree/d | wc -l
    # The connection is lost, and made anew.
    kill $(pgrep -n -f "^ssh .* $address sftp")
    until cat $M/one 2> /dev/null; do sleep .1; done
    echo two > $M/two
' > seen
grep -q "Accepted publickey" told
test "$(tr '\n' ' ' < seen)$(cat source/one source/two | tr '\n' ' ')" = '59 1 1 two '
