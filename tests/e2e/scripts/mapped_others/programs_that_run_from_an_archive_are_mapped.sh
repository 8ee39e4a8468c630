cd $W && mkdir tree t && cp @program@ tree/program && tar cf a.tar -C tree . \
    && @culvert@ run --no-private -v a.tar:t -- sh -c 'cd t && ./program program && ./program program && @program@ program'
