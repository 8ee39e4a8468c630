export CULVERT_LOG=$W/log
: > $W/log
echo > $M/slow
sh -c '@program@ $M vforked'
cat $W/log
