rm -f @fifo@
mkfifo @fifo@
cd $M
printf 0123456789abcdefghij > slow
printf other > other
exec @program@ . @fifo@ @mode@
