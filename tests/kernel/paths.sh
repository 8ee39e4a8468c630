# A program that decides by path, inside a guest: extensions/paths, over examples/c/mirror.c.
. /helpers.sh

# finds USER PATH; opens USER PATH: user is nobody or root.
finds() {
  [ $1 = root ] && as= || as=as_nobody
  $as stat /tmp/p/m/$2 >/dev/null 2>&1 && echo yes || echo no
}
opens() {
  [ $1 = root ] && as= || as=as_nobody
  $as cat /tmp/p/m/$2 >/dev/null 2>&1 && echo yes || echo no
}

mkdir -p /tmp/p/s/a/b /tmp/p/s/other
for name in a/secret a/b/secret a/b/open other/secret top; do echo $name >/tmp/p/s/$name; done
chmod -R a+rX /tmp/p/s
long=$(printf '%0200d' 0)
mkdir /tmp/p/s/$long
echo >/tmp/p/s/$long/$long
# Names are asked for each time, and believed long.
kept=valid=100000,absent=0
mount_at /tmp/p "hide=a/b/secret,hide=top,close=a/secret,close=z/b/open,extend=/paths.o,$kept" \
  /pathed.so /tmp/p/s
check "nothing was said of it" "$(cat /tmp/p/said)" ""
check "a name at the top" "$(finds nobody top) $(finds root top)" "no yes"
forget
lookups=$(told /tmp/p Lookup)
check "a path" "$(finds nobody a/b/secret)" no
lookups=$(($(told /tmp/p Lookup) - lookups))
check "lookups of the two directories on the way, at most" "$((lookups <= 2))" 1
check "the same name elsewhere" "$(finds nobody other/secret) $(finds nobody a/secret)" "yes yes"
check "root finds it" "$(finds root a/b/secret)" yes
forget
check "nobody after root" "$(finds nobody a/b/secret)" no
check "a file that is not opened" "$(opens nobody a/secret) $(opens root a/secret)" "no yes"
check "another one is" "$(opens nobody other/secret)" yes
check "a path that is too long is the server's" "$(finds nobody $long/$long)" yes

# A rename of a directory above: the paths below are others at once.
check "not closed yet" "$(opens nobody a/b/open)" yes
mv /tmp/p/m/a /tmp/p/m/z
forget
check "hidden no more" "$(finds nobody z/b/secret)" yes
check "closed by its new path" "$(opens nobody z/b/open)" no
check "open by its new path" "$(opens nobody z/secret)" yes
# Who stays in a directory below sees the new path, too.
mv /tmp/p/m/z /tmp/p/m/a
cd /tmp/p/m/a/b
forget
check "hidden again" "$(finds nobody a/b/secret)" no
mv /tmp/p/m/a /tmp/p/m/z
check "what is moved below one that stays" \
  "$(as_nobody cat secret >/dev/null 2>&1 && echo yes || echo no)" yes
cd /
# A file: by its own name.
mv /tmp/p/m/z /tmp/p/m/a
mv /tmp/p/m/a/secret /tmp/p/m/free
check "a file that was moved is open" "$(opens nobody free)" yes
mv /tmp/p/m/free /tmp/p/m/a/secret
forget
check "and closed when it is back" "$(opens nobody a/secret)" no
# Of two names neither is its path: the server decides.
ln /tmp/p/m/a/secret /tmp/p/m/second
check "two names" "$(opens nobody second) $(opens nobody a/secret)" "yes yes"
rm /tmp/p/m/second
forget
check "one again" "$(opens nobody a/secret)" no
# Another file of that name.
rm /tmp/p/m/a/secret
echo new >/tmp/p/m/a/new && mv /tmp/p/m/a/new /tmp/p/m/a/secret && chmod 644 /tmp/p/m/a/secret
check "a new one of that path" "$(opens nobody a/secret)" no

# Renames while others look: never hidden by a path that it has not.
(for i in $(seq 200); do mv /tmp/p/m/a /tmp/p/m/z; mv /tmp/p/m/z /tmp/p/m/a; done) &
mover=$!
while [ -d /proc/$mover ]; do
  as_nobody cat /tmp/p/m/a/secret /tmp/p/m/z/secret /tmp/p/m/a/b/secret /tmp/p/m/z/b/secret
done >/dev/null 2>&1
wait $mover
# What was looked up while they moved is looked up again.
forget
check "afterwards" "$(finds nobody a/b/secret) $(opens nobody a/secret)" "no no"
check "and elsewhere" "$(finds nobody other/secret) $(finds nobody a/b/open)" "yes yes"
unmount /tmp/p

# Small tables forget, and say nothing wrong.
for name in $(seq 100); do echo $name >/tmp/p/s/other/$name; done
chmod -R a+r /tmp/p/s/other
mount_at /tmp/p "close=other/7,extend=/paths.o,extend_entries=culvert_paths:9,$kept" /pathed.so /tmp/p/s
wrong=0
for name in $(seq 100); do
  [ $name = 7 ] || [ $(opens nobody other/$name) = yes ] || wrong=$((wrong + 1))
done
check "files that are closed by another's path" $wrong 0
unmount /tmp/p
# For an ordinary user, by the loader service.
begin_service /paths.o /tmp/p
as_nobody culvert mount -t /pathed.so -o hide=a/b/secret,extend=/paths.o,$kept /tmp/p/s /tmp/p/m \
  2>/tmp/said
check "the mount of an ordinary user" "$? $(cat /tmp/said)" "0 "
check "a path there" "$(finds nobody a/b/secret) $(finds nobody other/secret)" "no yes"
as_nobody culvert umount /tmp/p/m
end_service
ended
