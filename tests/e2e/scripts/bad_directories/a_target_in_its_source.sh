S=@source@
cat $S/inner/file && ls $S/inner && echo more > $S/inner/more && cat $S/more && rm $S/inner/more \
    && ls $S/inner/inner
