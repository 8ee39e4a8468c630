cd /
@way@ sh -c 'id -u; cat $M/hello.txt; stat -c %A,%U,%n $M/modes/*; cat $M/modes/600 $M/modes/644; md5sum $M/lines.txt'
