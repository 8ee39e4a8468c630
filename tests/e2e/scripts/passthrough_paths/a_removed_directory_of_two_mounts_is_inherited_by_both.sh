rm -rf s m n
mkdir -p s/d/sub m n
cat > looks.py << 'end'
import os, sys
for word in sys.argv[1].split(','):
    print(word, *[os.fstat(int(fd)).st_nlink for fd in word], flush=True)
if len(sys.argv) > 2:
    os.execv(sys.executable, ['python3', 'looks.py', *sys.argv[2:]])
end
exec $B/bin/culvert run --no-private -v s:m:driven -v s:n:driven -- bash -c '
        exec 5< m/d 6< n/d; rmdir m/d/sub m/d; exec python3 looks.py 5 6 5 56'
