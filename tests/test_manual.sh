#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual, --help, the INI files and options.def say the same.
. "${srcdir:-.}/tests/cli/lib.sh"
man1=$t_src/man/qwenrun.1
man5=$t_src/man/qwenrun.ini.5
list=${builddir:-.}/tests/list_options
[ -x "$list" ] || { echo "no $list: make check builds it"; exit 99; }

# Option names of a help text: the two forms at the start of lines "  -p TEXT", "  -p, --prompt TEXT".
help_options() {
    sed -n 's/^  \(--\{0,1\}[a-z].*\)/\1/p' | sed 's/  .*//' | tr ' ,' '\n' | grep '^-' | sort
}
# The same of a manual part: ".It Fl p Ar TEXT", ".It Fl -raw".
man_options() {
    sed -n 's/^\.It Fl \([^ ]*\).*/-\1/p' | sort
}

t_run --help
cp "$t_out" "$t_dir/help"
sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$t_dir/help" >"$t_dir/commands"
sed -n '/^\.Sh COMMANDS/,/^\.Sh ENV/s/^\.Ss //p' "$man1" >"$t_dir/man_commands"
t_same "commands of --help and manual" "$t_dir/commands" "$t_dir/man_commands"
sed '/^Settings/,$d' "$t_dir/help" | help_options >"$t_dir/common"
sed '/^\.Sh COMMANDS/,$d' "$man1" | man_options >"$t_dir/man_common"
t_same "common options of --help and manual" "$t_dir/common" "$t_dir/man_common"
while read -r command; do
    t_run "$command" --help
    t_status_is "$command --help" 0
    sed '/^Options of all/,$d' "$t_out" | help_options >"$t_dir/own"
    sed -n "/^\\.Ss $command\$/,/^\\.S[sh] /{/^\\.Ss $command\$/p;/^\\.S[sh]/!p;}" "$man1" |
        man_options >"$t_dir/man_own"
    t_same "$command: options of --help and manual" "$t_dir/own" "$t_dir/man_own"
    sed -n '/^Options of all/,$p' "$t_out" | help_options >"$t_dir/own_common"
    t_same "$command: common options" "$t_dir/common" "$t_dir/own_common"
    if awk 'length > 100 {exit 1}' "$t_out"; then
        t_pass "$command: no long line in --help"
    else
        t_fail "$command: no long line in --help"
    fi
done <"$t_dir/commands"

# Everything generated from options.def is as it would be generated now.
"$list" ini >"$t_dir/ini" || exit 99
t_same "conf/qwenrun.ini is up to date (make update-options)" "$t_dir/ini" "$t_src/conf/qwenrun.ini"
"$list" mdoc >"$t_dir/mdoc" || exit 99
sed '1,/KEYS: /d; /END OF KEYS/,$d' "$man5" >"$t_dir/man_keys"
t_same "key table of qwenrun.ini(5) is up to date (make update-options)" "$t_dir/mdoc" "$t_dir/man_keys"

# Keys and defaults once more, by other means: --help, config and the INI file.
sed -n '/^Settings/,$s/^  \([a-z0-9_]* = [^ ]*\).*/\1/p' "$t_dir/help" >"$t_dir/help_keys"
sed -n 's/^;\([a-z0-9_]* = [^ ]*\).*/\1/p' "$t_src/conf/qwenrun.ini" >"$t_dir/ini_keys"
t_same "keys and defaults of --help and qwenrun.ini" "$t_dir/help_keys" "$t_dir/ini_keys"
t_run config
grep -v '^$' "$t_out" | sed 's/ = .*//' >"$t_dir/config_names"
sed -n 's/^;\([a-z0-9_]*\) = .*/\1/p; s/^\[.*/&/p' "$t_src/conf/qwenrun.ini" >"$t_dir/ini_names"
t_same "sections and keys of config and qwenrun.ini" "$t_dir/config_names" "$t_dir/ini_names"

# Uncommented, qwenrun.ini is a good file that changes nothing.
sed 's/^;//' "$t_src/conf/qwenrun.ini" >"$t_dir/all.ini"
sed 's/ ; .*//' "$t_out" >"$t_dir/plain"
t_run config -c "$t_dir/all.ini"
t_status_is "qwenrun.ini with every key set" 0
sed 's/ ; .*//' "$t_out" >"$t_dir/all"
t_same "and it changes nothing" "$t_dir/plain" "$t_dir/all"
for preset in "$t_src"/conf/*.ini; do
    name=$(basename "$preset")
    t_ok "the manual names $name" grep -q "^\.It Pa $name\$" "$man1"
done
if command -v mandoc >/dev/null 2>&1; then
    for page in "$man1" "$man5"; do
        t_ok "mandoc finds nothing in $(basename "$page")" mandoc -T lint -W warning "$page"
    done
else
    t_skip "mandoc" "not installed"
fi
t_end
