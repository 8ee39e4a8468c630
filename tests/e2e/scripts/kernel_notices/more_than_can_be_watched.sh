unshare -Urm --propagation private bash -c '@seen@ echo 6 > /proc/sys/user/max_inotify_watches || exit 77
         cd @source@; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d$i; echo $i > d$i/f; done
         @culvert@ mount -o @long@ --log @source@/log @source@ @target@ || exit 78
         cd @target@; for i in 1 2 3 4 5 6 7 8 9; do cat d$i/f; done; for i in 1 2 3 4 5 6 7 8 9; do echo changed$i > @source@/d$i/f; done; for i in 1 2 3 4 5 6 7 8 9; do seen 9 stat -c %s d$i/f; done; cat d?/f | grep -c changed
         cd /; @culvert@ umount @target@; grep -c max_user_watches @source@/log'
