fish --no-config -c 'source $W/script; for line in $argv; complete -C $line | string split -f 1 \t | string join " "; end; true'
