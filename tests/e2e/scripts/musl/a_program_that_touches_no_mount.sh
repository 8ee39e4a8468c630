cd $W
@program@ files
@program@ threads
@program@ forks 2> /dev/null
@program@ signals environment | grep -v -e SHLVL -e OLDPWD
