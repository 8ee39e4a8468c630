# What zsh completes: each argument is a line of which the end is completed; what it has become is printed.
zmodload zsh/zpty
script=$1; shift
zpty shell zsh -f -i
say() { zpty -w shell "$1"; }
# Reads up to the mark, which is printed by a command and so not what was typed.
read_to() { local all= part; while [[ $all != *"$1"* ]]; do zpty -r shell part || break; all+=$part; done; REPLY=$all; }
say "PS1=; PS2=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; source $script; setopt no_list_beep no_auto_menu no_auto_list; complete_line() { BUFFER=\$LINE_TO; CURSOR=\$#BUFFER; zle complete-word; print -r -- \"<<\$BUFFER>>\"; BUFFER=; zle accept-line }; zle -N complete_line; bindkey '^X' complete_line; print rea''dy"
read_to ready
for line in "$@"; do
    say "LINE_TO=${(q)line}; print la''id"
    read_to laid
    zpty -w -n shell $'\x18'
    read_to '>>'
    print -r -- ${${REPLY##*<<}%%>>*}
done
zpty -d shell
