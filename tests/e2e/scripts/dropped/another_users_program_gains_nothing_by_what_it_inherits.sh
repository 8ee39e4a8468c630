cd /
umask 077
echo TOPSECRET > $M/secret
mkfifo $W/in $W/out
python3 -c "@uses@" < $W/in > $W/out &
exec 8> $W/in
read -r _ < $W/out
@nobody@ @attacker@ TOP SECRET $M/secret 8>&-
echo $?
exec 8>&-
wait
