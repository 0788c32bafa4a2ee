# Completions of seekless for fish. The program itself says what fits.
function __seekless_complete
    set -l word (commandline --current-token --cut-at-cursor)
    set -l option (string match --regex -- '^--[^=]*=' "$word")
    set -l files "__fish_command_without_completions "(string replace --regex -- '^--[^=]*=' '' "$word")
    for line in (seekless suggest fish (commandline --current-process --tokenize --cut-at-cursor) "$word" 2>/dev/null)
        switch $line
            case ':directories'
                printf '%s\n' "$option"(complete -C $files | string match --regex '.*/$')
            case ':files*'
                printf '%s\n' "$option"(complete -C $files | string match --regex '.*(?:'(string sub --start 8 -- $line)'|/)$')
            case '*'
                printf '%s\n' $line
        end
    end
end
complete --command seekless --no-files --keep-order --arguments '(__seekless_complete)'
