mkdir -p @target@.work
FSX=@fsx@ @loads@ KILLED @keeper@ @kills@ @culvert@ -- @load@ @target@ @target@.work @count@
