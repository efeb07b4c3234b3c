# Completion of gpurun's command line for bash.
#
# Options and the words that they take are read from "gpurun --help", so that nothing has to be kept up here: an option
# there is "  -n, --ranks N", "  --bind-to core|numa|none" or "  --membind[=bind|prefer|none]". In capitals is what only
# the user knows, but for files and folders. Behind the program, words are completed as for that program.

# Prints what an option of gpurun's help takes: nothing, "N", "core|numa|none", "[=bind|prefer|none]".
_gpurun_takes() { # HELP OPTION
    local line
    while IFS= read -r line; do
        [[ $line =~ ^\ \ (-[a-zA-Z],\ )?(--[a-z-]+)(\ |\[|$)([^ ]*) ]] || continue
        if [[ $2 == "${BASH_REMATCH[2]}" || "$2, " == "${BASH_REMATCH[1]}" ]]; then
            printf '%s' "${BASH_REMATCH[3]# }${BASH_REMATCH[4]}"
            return
        fi
    done <<<"$1"
}

_gpurun_offer() { # as compgen
    local word
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(compgen "$@")
}

_gpurun_values() { # OPTION, WHAT IT TAKES, CURRENT WORD
    local word=$3
    case $1,$2 in
    --device,*) _gpurun_offer -W 'auto cuda emulated' -- "$word" ;;
    --topology,*)
        _gpurun_offer -f -X '!*.xml' -- "$word"
        _gpurun_offer -d -- "$word"
        ;;
    --env,*) _gpurun_offer -v -- "$word" ;;
    *,FOLDER | *,DIR) _gpurun_offer -d -- "$word" ;;
    *,FILE) _gpurun_offer -f -- "$word" ;;
    *)
        local choices=${2#\[=} choice words=()
        for choice in ${choices//|/ }; do
            choice=${choice%%[A-Z]*}
            choice=${choice%\]}
            [[ -z $choice || $choices != *'|'* ]] || words+=("$choice")
        done
        _gpurun_offer -W "${words[*]}" -- "$word"
        ;;
    esac
}

_gpurun_offer_options() { # HELP, CURRENT WORD
    _gpurun_offer -W "$(sed -nE 's/^  (-[a-zA-Z], )?(--[a-z-]+).*/\2/p' <<<"$1")" -- "$2"
}

_gpurun() {
    local help current=${COMP_WORDS[COMP_CWORD]} index=1 program=0 option='' takes='' word
    COMPREPLY=()
    if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} == jobs ]]; then # no program, but a command of gpurun's
        _gpurun_offer_options "$("${COMP_WORDS[0]}" jobs --help 2>/dev/null)" "$current"
        return
    fi
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null) || return

    # Walks over what stands before the current word. `option` is one that waits for its value.
    while ((index < COMP_CWORD)); do
        word=${COMP_WORDS[index]}
        if [[ $word == : ]]; then
            program=0 option=''
        elif ((program)); then
            :
        elif [[ $word == = && -n $option ]]; then
            : # bash makes a word of its own of it
        elif [[ -n $option && ($takes != \[* || ${COMP_WORDS[index - 1]} == =) ]]; then
            option=''
        elif [[ $word == -- ]]; then
            program=$((index + 1))
        elif [[ $word == -* ]]; then
            option='' takes=$(_gpurun_takes "$help" "$word")
            [[ -z $takes ]] || option=$word
        else
            program=$index
        fi
        ((++index))
    done

    if ((program)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$program"
        else
            _gpurun_offer -f -- "$current"
        fi
        return
    fi
    local previous=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ -n $option && ($takes != \[* || $previous == = || $current == =) ]]; then
        [[ $current != = ]] || current=''
        _gpurun_values "$option" "$takes" "$current"
    elif [[ $current == -* ]]; then
        _gpurun_offer_options "$help" "$current"
    else
        _gpurun_offer -c -- "$current"
        _gpurun_offer -f -- "$current"
    fi
}

complete -o filenames -F _gpurun gpurun
