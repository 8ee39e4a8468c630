cd $M && @limits@ @kind@ self && @limits@ @kind@ cat hello.txt \
    && @limits@ @kind@ env -i /bin/cat dir/a.txt
