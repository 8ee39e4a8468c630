umask 022
chmod 755 $M
mkdir $M/sub
echo text > $M/sub/f
cd $M/sub
@nobody@ sh -c 'cat f; cd $M/sub; cat f'
