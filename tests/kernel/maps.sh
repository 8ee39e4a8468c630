# A driver in C and the program of its extension, inside a guest: both change the same maps
# (examples/c/curtain.c, extensions/example).
. /helpers.sh

# has DIR NAME: whether nobody finds it.
has() {
  as_nobody stat $1/m/$2 >/dev/null 2>&1 && echo yes || echo no
}

# choose DIR WORD: the driver is told what to hide, or (-) to show.
choose() {
  printf "%s\n" "$2" 2>/dev/null >$1/m/curtain && echo yes || echo no
}

quick=valid=0,absent=0
mount_at /tmp/c hide=mars,extend=/example.o,extend_entries=hidden:2,$quick /curtain.so none
check "nothing was said of it" "$(cat /tmp/c/said)" ""
check "what the driver has put before the first request" "$(has /tmp/c mars)" no
check "another one" "$(has /tmp/c venus)" yes
check "root" "$(stat -c %F /tmp/c/m/mars)" "regular empty file"
lookups=$(told /tmp/c Lookup)
check "asked again" "$(has /tmp/c mars)" no
check "lookups that the driver hears of" $(($(told /tmp/c Lookup) - lookups)) 0
check "one more" "$(choose /tmp/c venus)" yes
check "what is put later" "$(has /tmp/c venus)" no
check "all keys" "$(echo $(sort /tmp/c/m/curtain))" "mars venus"
check "a map as large as was asked for" "$(choose /tmp/c earth)" no
check "what is removed" "$(choose /tmp/c -mars)" yes
check "what was removed before" "$(choose /tmp/c -mars)" no
check "is there again" "$(has /tmp/c mars)" yes
check "the keys that are left" "$(sort /tmp/c/m/curtain)" venus
unmount /tmp/c

# The driver refuses an extension that has not its map, which is as without.
mount_at /tmp/c hide=mars,extend=/ready.o,$quick /curtain.so none
check "an object without the map" \
  "$(grep -c 'extend=/ready.o is not used: the driver: No such device or address' /tmp/c/said)" 1
check "nobody hides it" "$(has /tmp/c mars)" yes
check "nor can" "$(choose /tmp/c mars)" no
unmount /tmp/c

# Sizes by names that the object has not.
culvert mount -t passthrough -o extend=/example.o,extend_entries=seen:4 /tmp/c/s /tmp/c/m 2>/tmp/said
check "an unknown map is refused" $(($? != 0)) 1
check "with the maps that there are" \
  "$(grep -c 'there is no map seen, but hidden, looks, closed' /tmp/said)" 1

# The same for an ordinary user, by the loader service.
begin_service /example.o /tmp/c
as_nobody culvert mount -t /curtain.so \
  -o hide=mars,extend=/example.o,extend_entries=hidden:1,$quick none /tmp/c/m 2>/tmp/said
check "the mount of an ordinary user" $? 0
check "nothing was said of that" "$(cat /tmp/said)" ""
check "what its driver has put" "$(has /tmp/c mars)" no
check "its map is as large as was asked for" \
  "$(as_nobody sh -c 'echo venus >/tmp/c/m/curtain' 2>/dev/null && echo yes || echo no)" no
as_nobody culvert umount /tmp/c/m
check "its unmount" $? 0
end_service
ended
