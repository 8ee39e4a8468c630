cd $W
mkdir place
: > place/file
: > archive.tar
@culvert@ completion @shell@ > script || exit
PATH=$B/bin:$PATH @command@ @join@
