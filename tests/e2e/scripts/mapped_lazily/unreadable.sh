@program@ make $M/file @size@ && @program@ unreadable $M/file @size@ @bad@
echo end $?
cat $W/log >&2
