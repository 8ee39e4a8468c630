@prefix@ @program@ environment 2> /dev/null | grep -v OLDPWD
@prefix@ @program@ environment again 2> /dev/null | grep -v -e ^_= -e SHLVL -e OLDPWD
