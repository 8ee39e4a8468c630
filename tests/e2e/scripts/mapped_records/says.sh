export CULVERT_LOG=$W/log
: > $W/log
bash -c '@program@ @what@ $M/file @behind@; echo end $?; cat $W/log >&2'
