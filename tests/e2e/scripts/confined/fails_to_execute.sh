@program@ $M 2> $W/said || cat $W/said
cd $W && mkdir outside && @program@ outside 2> $W/said || cat $W/said
