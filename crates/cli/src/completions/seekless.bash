# Completions of seekless for bash 4.4 or later. The program itself says what fits.
_seekless() {
    local words=("${COMP_WORDS[@]:0:COMP_CWORD+1}") line file
    [[ -n $2 ]] && words[COMP_CWORD]=$2
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :directories)
            compopt -o dirnames
            ;;
        :files*)
            if [[ $line == ':files '* ]]; then
                while IFS= read -r file; do
                    [[ ${COMP_WORDS[COMP_CWORD]} == [\'\"]* ]] || printf -v file %q "$file"
                    COMPREPLY+=("$file")
                done < <(compgen -f -X "!*${line#:files }" -- "$2")
            fi
            # Readline completes names of files where nothing else fits.
            compopt -o default
            ;;
        *)
            line=${line%%$'\t'*}
            [[ $line == *= ]] && compopt -o nospace
            COMPREPLY+=("$line")
            ;;
        esac
    done < <(seekless suggest bash "${words[@]}" 2>/dev/null)
}
complete -o nosort -F _seekless seekless
