# What bash completes: each argument is a line of which the end is completed; what there is for it is printed in one line.
. "$1"
shift
for line in "$@"; do
    # As readline splits it: at blanks, and before and behind colons and equals signs.
    read -ra COMP_WORDS <<< "$(sed -E 's/[:=]+/ & /g' <<< "$line")"
    case $line in *" ") COMP_WORDS+=("") ;; esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
    COMPREPLY=()
    _culvert culvert 2>/dev/null
    echo "$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort -u | tr '\n' ' ')"
done
