cd $M/links
cat chain-20
cat $M/links/chain-06
cat chain-05
cat ../links/chain-00
