seq 200000 > numbers
cp --reflink=auto numbers copy
cp --reflink=auto --sparse=always copy again
cmp numbers again
grep -c 77 numbers
! command -v rg > /dev/null || {
    test $(rg --mmap -c 77 numbers) = $(grep -c 77 numbers)
    rg --mmap -n '^1999' . | sort | md5sum
}
printf '\x7fELF junk' > junk
file numbers junk
file -m /usr/share/misc/magic.mgc numbers > /dev/null 2>&1 || :
strings -n 3 numbers | md5sum
sort -S 1M -R numbers | sort -n -c - 2> /dev/null || sort -S 1M -rn numbers | tail -n 1
python3 - << 'END'
import mmap, os
with open("numbers", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    assert m.find(b"\n199999\n") > 0 and m.rfind(b"\n7\n") > 0
    m[0:1] = b"9"; m.flush(); m.resize(len(m) + 5000); m[-4:] = b"end\n"; m.move(10, 2, 100); m.close()
assert os.path.getsize("numbers") == 1288895 + 5000 and open("numbers", "rb").read()[-4:] == b"end\n"
END
