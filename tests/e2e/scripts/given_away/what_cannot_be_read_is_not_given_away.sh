cd $M
@program@ pass lines.txt @fixed@ && @program@ pass hello.txt @fixed@ | grep -c '13 bytes'
