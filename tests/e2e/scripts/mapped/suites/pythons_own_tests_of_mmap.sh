export TMPDIR=$M
/usr/bin/python3 -m test @chosen@ --tempdir $M test_mmap
