cd $M
perl -ne '$n++ if /1/; END { print "$n\n" }' words
perl -MFile::Find -e 'find({ wanted => sub { print "$File::Find::name\n" if -f }, preprocess => sub { sort @_ } }, ".")' \
    | head -n 30
perl -e 'print join ",", sort glob("*"), (stat "words")[7], -M "words" > 1; open F, "<", "words"; seek F, 10, 0; print tell F, <F> . ""' \
    | md5sum
awk '/1/ { n++ } END { print n }' words
perl -T -e 'print -e "words"'
