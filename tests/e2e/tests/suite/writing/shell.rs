//! Shells: redirections, here documents, subshells, globs, traps.

use super::{good, same};
use culvert_e2e::{Driver, on_each_driver};

on_each_driver! {
    redirections |case| good(&case,
        "echo one > f; echo two >> f; cat f; { echo a; echo b >&2; } > both 2>&1; cat both; echo x &> all; echo y &>> all; cat all
         exec 5> five; echo to five >&5; echo again >&5; exec 5>&-; cat five; exec 6<> both; read -r line <&6; echo $line; echo Z >&6; exec 6>&-; cat both
         set -C; if echo no > f 2>/dev/null; then echo OVERWRITTEN; fi; echo yes >| f; cat f; set +C; : > f; test ! -s f
         echo 1 > n; echo 22 1<> n; cat n; cat < f > g; cat n >> g; cat g g > h; wc -c < h; if cat h >> h; then echo APPENDED TO ITSELF; fi 2>/dev/null");

    a_subshell_shares_the_offset |case| good(&case,
        "(echo a; echo b) > f; cat f; (echo 1; (echo 2; echo 3); echo 4) > g; cat g; { echo x; sh -c 'echo y; exec echo z'; echo w; } > h; cat h
         (seq 5; /bin/echo six; seq 7 9) > i; cat i; for n in 1 2 3; do echo $n; done > j; cat j; while read -r l; do echo \"<$l>\"; done < j > k; cat k
         exec 7> l; echo first >&7; (echo second >&7); sh -c 'echo third >&7'; /bin/echo fourth >&7; exec 7>&-; cat l
         (echo long long line; cat f) > m; cat m; { head -c 3; cat; } < m > n; cat n; (exec > o; echo in o; /bin/echo too); cat o");

    here_documents |case| good(&case,
        "cat <<< hello > f; cat f; cat > g <<END\n$(seq 1000 | tr '\\n' ' ') $HOME_IS_UNSET\nEND\nmd5sum g; cat <<'END' | tr a-z A-Z > h\n$not expanded `at all`\nEND\ncat h
         for i in 1 2 3; do cat <<END; done > i\nround $i\nEND\ncat i; read -r a b <<< 'x y'; echo $b $a; cat <(echo one) <(echo two) > j; cat j; echo out > >(cat > k); wait; sleep 0.1; while ! test -s k; do sleep 0.05; done; cat k");

    appending_processes_lose_nothing |case| good(&case,
        "for p in 1 2 3 4; do (for i in $(seq 250); do echo \"$p $i\"; done >> log) & done; wait; wc -l < log; sort -u log | wc -l; awk 'NF != 2' log | wc -l; sort log > sorted; rm log
         : > log; for p in a b c d; do for i in $(seq 25); do /bin/echo $p $i >> log; done & done; wait; sort log | md5sum; wc -l < log; rm log");

    globs_and_directories |case| good(&case,
        "mkdir -p a/b/c 'with space' .hidden; touch a/1 a/2 a/b/3 a/b/c/4 'with space/x y' .hidden/h; echo *; echo .*; echo */; echo a/?; shopt -s globstar nullglob; echo **/*; echo **/[0-9]; echo none*
         cd a/b; pwd; cd ..; pwd -P; pushd b/c >/dev/null; pwd; popd >/dev/null; cd -P ../a/./b/../b; pwd; cd $M; (cd a; rm -r b; echo *); if cd a/b 2>/dev/null; then echo THERE; fi; [ -d a ] && [ -f a/1 ] && [ ! -e a/b ] && [ -O a/1 ] && [ -w a/1 ] && [ ! -x a/1 ] && echo tests
         touch -d '2001-02-03 04:05:06' old; [ a/1 -nt old ] && [ old -ot a/1 ] && [ a/1 -ef a/../a/1 ] && echo times; stat -c %y old; umask 077; echo x > private; mkdir privated; stat -c '%a %n' private privated; umask 000; touch open; stat -c %a open");

    traps_and_jobs |case| same(&case,
        "trap 'echo trapped; rm -f lock' EXIT; touch lock; (trap 'echo got TERM > term; exit 3' TERM; echo ready > ready; while :; do sleep 0.01; done) & p=$!; until [ -s ready ]; do sleep 0.01; done; kill -TERM $p; wait $p; echo $?; cat term
         mkfifo pipe; (echo through > pipe) & read -r l < pipe; echo $l; wait; cat pipe > got & echo more > pipe; wait; cat got; coproc cat; echo co >&${COPROC[1]}; read -r c <&${COPROC[0]}; echo $c; kill $COPROC_PID; (exit 7) > e; echo $?; false > e || echo no; ls missing > e 2> err; cat err; nosuch > e 2>> err; test -s err && echo said");

    // A program started in a removed directory that only a driver of its own process could have held finds it stale.
    ones_own_directory_is_removed_or_moved |case| same(&case, &"mkdir -p d/e; cd d/e; rmdir $M/d/e; pwd; LIST; echo x > f; echo $?; cd ..; pwd; mkdir g; cd g; echo 1 > one; mv $M/d/g $M/moved; cat one; echo 2 > two; ls; cat $M/moved/two; /bin/pwd; cd ..; /bin/pwd; mkdir g; echo other > g/one; cat $M/moved/one g/one".replace("LIST", if case.driver() == Some(Driver::Driven) { "echo" } else { "ls | wc -l" }));
}
