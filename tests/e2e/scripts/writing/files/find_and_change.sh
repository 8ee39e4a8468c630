mkdir -p a/b/c d/e
touch a/1.txt a/b/2.txt a/b/c/3.log d/e/4.txt
chmod 600 a/1.txt
find . -name '*.txt' | sort
find . -name '*.log' -delete
find . -type f | sort
find . -empty | sort
find . -perm 600
find a -type f -exec chmod 640 {} +
find . -perm 640 | sort
touch -d @5 a/1.txt d
touch -d @9 d/e/4.txt
touch -d @3 a/b/2.txt
find . -newer a/1.txt -type f | sort
find a -depth -type d | wc -l
find . -name '*.txt' -print0 | sort -z | xargs -0 -n 1 basename
find . -name 4.txt -exec mv {} {}.moved ';'
find d
find . -type f -exec sh -c 'echo $1 > $1' sh {} ';'
cat a/1.txt
find d -delete
ls
find . -links 1 -size -2 -type f | sort
mkdir many
(
    cd many
    seq 3000 | xargs touch
)
find many -type f | wc -l
find many -name '*7' -delete
ls many | wc -l
ls -U many | sort -n | tail -n 1
rm -r many
