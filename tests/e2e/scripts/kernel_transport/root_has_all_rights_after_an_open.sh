cd @target@ && taskset -c 0 bash -c '
                 umask 022; for i in 1 2 3 4 5 6; do echo $i > f; cat f f > /dev/null; chgrp 1234 f; chmod 2755 f; stat -c %a f
                 cat f > /dev/null; echo x >> f; stat -c %a f; rm f; done' | sort | uniq -c
