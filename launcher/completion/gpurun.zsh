#compdef gpurun
# Completion of gpurun's command line for zsh.
#
# The options, their values and their descriptions are read from "gpurun --help", so that nothing has to be kept up to
# date here. gpurun.bash says how its lines are read. After the program, words are completed as for that program.

# How _arguments completes what an option takes: "N", "core|numa|none", "bind|prefer|none".
_gpurun_values() { # OPTION TAKES: sets reply
    local choice
    local -a choices
    case $1,$2 in
    --device,*) reply='(auto cuda emulated)' ;;
    --topology,*) reply='_files -g "*.xml"' ;;
    --env,*) reply='_parameters -g "*export*"' ;;
    *,FOLDER | *,DIR) reply='_files -/' ;;
    *,FILE) reply=_files ;;
    *\|*)
        for choice in ${(s:|:)2}; do
            choice=${choice%%[A-Z]*} # in capitals is what only the user knows
            [[ -z $choice ]] || choices+=("${choice//:/\\:}")
        done
        reply="($choices)"
        ;;
    *) reply=' ' ;;
    esac
}

_gpurun_add() { # SHORT LONG TAKES TEXT: to options, which _arguments reads
    local reply text=${${4//\[/(}//\]/)} several=''
    local takes=${${3#\[=}%\]}
    [[ $2 != --env ]] || several='*'
    _gpurun_values "$2" "$takes"
    case $3 in
    '') options+=("$2[$text]") ;;
    \[*) options+=("$2=-[$text]::${takes//:/\\:}:$reply") ;; # a value behind "=", or none
    *) options+=("${1:+($1)}$several$2=[$text]:${takes//:/\\:}:$reply") ;;
    esac
    case $1,$3 in
    ,*) ;;
    *,) options+=("($2)$1[$text]") ;;
    *) options+=("($2)$1+[$text]:$takes:$reply") ;;
    esac
}

_gpurun_programs() {
    _alternative "commands:program:_command_names -e" "own:command of gpurun:(jobs)"
}

_gpurun_read() { # HELP
    local line
    local -a waiting # an option of which the next line tells
    for line in "${(@f)1}"; do
        if [[ $line =~ '^  (-[a-zA-Z], )?(--[a-z-]+)(\[=[^ ]*| [^ ]+)?( +(.*))?$' ]]; then
            waiting=("${match[1]%, }" "$match[2]" "${match[3]# }")
            [[ -n $match[5] ]] || continue
            line=$match[5]
        elif [[ $#waiting -eq 0 || $line != \ * ]]; then
            continue
        fi
        _gpurun_add "${(@)waiting}" "${line##[[:space:]]#}"
        waiting=()
    done
}

_gpurun() {
    setopt local_options extended_glob
    local curcontext=$curcontext help
    local -i word
    local -a options
    if [[ $words[2] == jobs && CURRENT -gt 2 ]]; then # no program, but a command of gpurun's
        help=$(_call_program options "${(q)words[1]}" jobs --help 2>/dev/null) || return 1
        _gpurun_read "$help"
        words[2]=()
        ((CURRENT -= 1))
        _arguments "${options[@]}"
        return
    fi
    help=$(_call_program options "${(q)words[1]}" --help 2>/dev/null) || return 1
    _gpurun_read "$help"

    # Behind a ":" another program begins.
    for ((word = CURRENT - 1; word > 1; word--)); do
        if [[ $words[word] == : ]]; then
            words=("$words[1]" "${(@)words[word + 1, -1]}")
            ((CURRENT -= word - 1))
            break
        fi
    done
    if [[ $words[2] == -- && CURRENT -gt 2 ]]; then # which _arguments understands behind options only
        words[2]=()
        ((CURRENT -= 1))
    fi
    _arguments -S -A '-*' "${options[@]}" '(-)1:program:_gpurun_programs' '*:: :_normal'
}

_gpurun "$@"
