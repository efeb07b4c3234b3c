# Completion of gpurun's command line for fish.
#
# The options, their values and their descriptions are read from "gpurun --help", so that nothing has to be kept up to
# date here. gpurun.bash says how its lines are read. After the program, words are completed as for that program.

# The words before the cursor from the current program on; none while its options are typed.
function __gpurun_program
    set -l program
    set -l value no # whether the next word is one
    for word in (commandline -opc)[2..]
        if test "$word" = :
            set program
            set value no
        else if set -q program[1]
            set -a program $word
        else if test $value = yes
            set value no
        else if string match -q -- '-*' $word
            contains -- $word $__gpurun_with_value; and set value yes
        else
            set program $word
        end
    end
    printf '%s\n' $program
end

function __gpurun_has_program
    set -l program (__gpurun_program)
    test -n "$program[1]"
end

function __gpurun_words_of_program
    complete -C (string join ' ' -- (string escape -- (__gpurun_program)) (commandline -ct))
end

# How `complete` completes what an option takes: "N", "core|numa|none", "[=bind|prefer|none]".
function __gpurun_values # LONG TAKES
    switch "$argv[1],$argv[2]"
        case '*,'
            printf '%s\n' -f
        case 'topology,*' '*,FILE'
            printf '%s\n' -r -F
        case '*,FOLDER' '*,DIR'
            printf '%s\n' -x -a '(__fish_complete_directories)'
        case 'env,*'
            printf '%s\n' -x -a '(set -xn)='
        case 'device,*'
            printf '%s\n' -x -a 'auto cuda emulated'
        case '*'
            # In capitals is what only the user knows.
            set -l words (string split '|' -- (string trim -c '[=]' -- $argv[2]))
            set -l choices (string replace -r '[A-Z].*' '' -- $words)
            set -q words[2]; or set choices
            # A value that may be left out stands behind "=".
            string match -q '[[]*' -- $argv[2]; and printf '%s\n' -f; or printf '%s\n' -x
            printf '%s\n' -a "$choices"
    end
end

function __gpurun_add # SHORT LONG TAKES TEXT
    set -l names -l $argv[2]
    test -z "$argv[1]"; or set -a names -s $argv[1]
    complete -c gpurun -n 'not __gpurun_has_program' $names -d $argv[4] (__gpurun_values $argv[2] $argv[3])
    if not string match -qr '^($|\[)' -- $argv[3]
        set -ga __gpurun_with_value --$argv[2]
        test -z "$argv[1]"; or set -ga __gpurun_with_value -$argv[1]
    end
end

set -g __gpurun_with_value
set -l waiting # an option of which the next line tells
for line in (gpurun --help 2>/dev/null)
    set -l text
    if string match -rq '^  (-(?<short>[a-zA-Z]), )?--(?<long>[a-z-]+)(?<takes>\[=\S*| \S+|)( +(?<text>.*))?$' -- $line
        set waiting "$short" $long (string trim -- "$takes")
    else if set -q waiting[1]; and string match -q ' *' -- $line
        set text (string trim -- $line)
    end
    if test -n "$text"
        __gpurun_add $waiting $text
        set waiting
    end
end

# gpurun's own command, where a program could stand.
function __gpurun_is_first
    test (count (commandline -opc)) -eq 1
end
function __gpurun_lists_jobs
    set -l words (commandline -opc)
    test "$words[2]" = jobs
end

complete -c gpurun -n __gpurun_is_first -xa jobs -d "list this user's jobs on this machine"
for line in (gpurun jobs --help 2>/dev/null)
    if string match -rq '^  --(?<long>[a-z-]+) +(?<text>.*)$' -- $line
        complete -c gpurun -n __gpurun_lists_jobs -f -l $long -d $text
    end
end
complete -c gpurun -n 'not __gpurun_has_program' -xa '(__fish_complete_command)'
complete -c gpurun -n '__gpurun_has_program; and not __gpurun_lists_jobs' -xa '(__gpurun_words_of_program)'
