mkdir -p a/b
cp /bin/echo a/b/e
cp /bin/pwd a/b/p
ln -s b/e a/l
python3 -c "
import os, subprocess

a = os.environ['M'] + '/a'
for command, here in (
    ([a + '/b/e', 'x'], a),
    (['./l', 'y'], a),
    (['b/p'], a),
    ([a + '/b/p'], a + '/b'),
):
    print(subprocess.run(command, cwd=here, capture_output=True, close_fds=True).stdout)
"
