@culvert@ mount @source@ @target@ && echo hello > @target@/f && cat @target@/f \
    && stat -c %u @target@/f && mkdir @target@/d && mv @target@/f @target@/d && ls @target@/d
@culvert@ umount @target@
ls -A @target@
cat @source@/d/f
