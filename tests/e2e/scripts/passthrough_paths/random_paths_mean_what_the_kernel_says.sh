for s in @seeds@; do
    rm -rf $M/* $W/out
    mkdir $W/out
    python3 @program@ $M $W/out $s 700
done
