cat $T/file $T/below/deep $T/again/deep && echo x > $T/again/new && cat $T/below/new \
    && rm $T/below/new && ls $T/again
