for p in program-*; do
    ./$p
    cmp <(./$p) <(./program-bfd)
done
readelf -aW all.o *.so > /dev/null
