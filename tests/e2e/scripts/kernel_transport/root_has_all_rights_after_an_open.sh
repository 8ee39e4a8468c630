cd @target@ && taskset -c 0 bash -c '
                 # What is appended to is not passed to the kernel, whatever is still to be closed:
                 # a write to what is passed takes set-group-ID off for root, too.
                 umask 022; for i in 1 2 3 4 5 6; do echo $i > f; cat f f > /dev/null; chgrp 1234 f; chmod 2755 f; stat -c %a f
                 echo > g; : >> h; chgrp 1234 h; chmod 2755 h
                 cat g > /dev/null; echo x >> h; stat -c %a h; rm f g h; done' | sort | uniq -c
