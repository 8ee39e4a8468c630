for i in @inherit@; do
    echo "== @spawn@ @exec@ $i"
    f=lines.txt
    test $i = dir && f=many
    @heritage@ @spawn@ @exec@ $i $M/$f @reader@
done
