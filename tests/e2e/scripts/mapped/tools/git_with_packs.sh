export GIT_CONFIG_GLOBAL=/dev/null
for r in r c s; do sed -i 's:/.*/mounts/[^/]*:..:' $r/objects/info/alternates 2> /dev/null \
    || :; done
git -C r fsck --full
git -C c fsck --full
