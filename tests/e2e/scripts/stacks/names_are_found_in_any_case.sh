set -e
cd @target@
echo one > ReadMe
mkdir Sub
cat README
ls | tr '\n' ' '; echo
cd SUB
echo read > Über
(cat ../sub/ÜBER)
cd ..
[ ReadMe -ef readme ] && [ "$(stat -c %i sub/üBER)" = "$(stat -c %i Sub/Über)" ] && echo same
(set -C; echo two > READme) 2> /dev/null || { mkdir rEADME 2> /dev/null || echo refused; }
# Only its case; coreutils' mv would ask whether both are one file.
python3 -c 'import os; os.rename("ReadMe", "README")'
echo moved > other
mv -f other ReadMe
cat readme
ls | tr '\n' ' '; echo
rm readme
rm -r SUB
ls -A | grep . || echo gone
