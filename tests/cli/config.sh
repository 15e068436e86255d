#!/bin/sh
# SPDX-License-Identifier: MIT
# config and the command line: every file of tests/cases/ini, presets, order, errors, exit statuses.
. "${srcdir:-.}/tests/cli/lib.sh"
cases=$t_src/tests/cases/ini
unset XDG_CONFIG_HOME
HOME=$t_dir/home
export HOME

# has_setting NAME LINE: the text form has this line, whatever its origin.
has_setting() {
    if sed 's/ ; .*//' "$t_out" | grep -q -x -F -e "$2"; then
        t_pass "$1"
    else
        t_fail "$1" "no line '$2'"
    fi
}

# json NAME PATH VALUE: needs python3 only to read what was written.
if command -v python3 >/dev/null 2>&1; then
    json() {
        t_got=$(python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2].split("/"):
    v = v[int(k)] if isinstance(v, list) else v[k]
print(v)' "$t_out" "$2" 2>&1)
        if [ "$t_got" = "$3" ]; then t_pass "$1"; else t_fail "$1" "$2 is $t_got"; fi
    }
else
    json() { t_skip "$1" "no python3"; }
fi

# ---- the cases ----
f=$cases/i01-inline-comments.ini
t_run config -c "$f"
t_refused "i01 a quote that a comment cuts" 2 "i01-inline-comments.ini:6: .*quote"
grep -v '^system' "$f" >"$t_dir/i01.ini"
t_run config -c "$t_dir/i01.ini"
has_setting "i01 a semicolon in a path" 'target = /m/a;b.gguf'
has_setting "i01 a blank and ; begin a comment" 'draft = /m/my model'
has_setting "i01 a number with a comment" 'context = 4096'
has_setting "i01 a value of #" 'stop = ###'
t_run config -c "$cases/i02-long-comment.ini"
t_status_is "i02 a long comment" 0
has_setting "i02 has no effect" 'context = 4096'
t_run config -c "$cases/i03-long-value.ini"
t_refused "i03 a long value" 2 'i03-long-value.ini:2: '
for n in i04-bom-crlf i15-no-final-newline; do
    t_run config -c "$cases/$n.ini"
    t_status_is "$n" 0
    t_err_lines "$n: nothing to say" 0
    has_setting "$n: seed" 'seed = 7'
    t_out_has "$n: context and its line" "^context = 4096 ; .*$n.ini:2\$"
done
t_run config -c "$cases/i05-duplicates.ini"
t_status_is "i05 duplicates" 0
has_setting "i05 the last wins" 'context = 1024'
t_err_has "i05 a warning with both lines" 'i05-duplicates.ini:5: .*line 3'
t_err_lines "i05 a warning each" 2
t_run config -q -c "$cases/i05-duplicates.ini"
t_err_lines "i05 -q" 0
t_run config -c "$cases/i06-unknown.ini"
t_refused "i06 an unknown key" 2 "i06-unknown.ini:2: .*contextt.*model.context?"
t_refused "i06 an unknown section" 2 "line 3: .*modell.*\\[model\\]?"
t_refused "i06 another letter case" 2 "line 5: .*MODEL.*\\[model\\]?"
t_run config -c "$cases/i07-bad-numbers.ini"
for want in 'i07-bad-numbers.ini:2: model.context = 12abc: .*1 to 1048576' \
    'line 4: sampling.seed = 99999999999999999999: .*0 to 18446744073709551615' \
    'line 5: sampling.temperature = nan: .*0 to 100' 'line 6: sampling.top_p = 1.5: .*0 to 1' \
    'line 7: sampling.top_k = -3: .*0 to 1048576' 'line 8: sampling.max_tokens = 1e3: .*1 to 1048576' \
    'line 10: batch.prefill = 0x10: .*1 to 4096' 'line 12: server.port = 70000: .*1 to 65535'; do
    t_refused "i07 $want" 2 "$want"
done
t_run config -c "$cases/i08-no-section.ini"
t_refused "i08 no section" 2 'i08-no-section.ini:1: '
t_run config -c "$cases/i09-unclosed-section.ini"
t_refused "i09 an unclosed section" 2 'i09-unclosed-section.ini:1: '
t_run config -c "$cases/i10-nul-byte.ini"
t_refused "i10 a NUL byte" 2 'i10-nul-byte.ini:2: '
t_run config
sed 's/ ; .*//' "$t_out" >"$t_dir/plain"
t_run config -c "$cases/i11-empty.ini"
t_status_is "i11 an empty file" 0
sed 's/ ; .*//' "$t_out" >"$t_dir/empty"
t_same "i11 is the same as none" "$t_dir/plain" "$t_dir/empty"
t_run config -c "$cases/i12-no-value.ini"
t_refused "i12 no value" 2 'i12-no-value.ini:2: '
t_refused "i12 no =" 2 'line 3: '
t_refused "i12 no key" 2 'line 4: '
t_run config -c "$cases/i13-utf8-path.ini"
has_setting "i13 UTF-8 and a blank in a path" 'target = /modèles/千問 27B.gguf'
for n in i14a-bool-on i14b-bool-true; do
    t_run config -c "$cases/$n.ini"
    has_setting "$n" 'adaptive = yes'
done
for n in i14c-bool-2 i14d-bool-maybe; do
    t_run config -c "$cases/$n.ini"
    t_refused "$n" 2 "$n.ini:2: .*yes, no, on, off, true, false, 1 or 0"
done

# ---- presets and order ----
for n in tiny cpu ci b70 b70-strict b70-plain qwenrun; do
    t_run config -c "$n"
    t_status_is "preset $n" 0
done
t_run config -c tiny
sed 's/ ; .*//' "$t_out" >"$t_dir/tiny"
t_same "tiny.ini equals the defaults" "$t_dir/plain" "$t_dir/tiny"
t_run config -c b70-strict
for want in 'context = 4096' 'target = q8_0' 'draft = f16' 'n_max = 5' 'n_min = 0' 'p_min = 0' 'pack = off' \
    'adaptive = no'; do
    has_setting "b70-strict: $want" "$want"
done
mkdir -p "$HOME/.config/qwenrun"
printf '[model]\ncontext = 11\n[batch]\nprefill = 11\n' >"$HOME/.config/qwenrun/qwenrun.ini"
printf '[model]\ncontext = 12\n' >"$HOME/.config/qwenrun/mine.ini"
printf '[model]\ncontext = 13\ntarget = m.gguf\n' >"$t_dir/own.ini"
t_run config
t_out_has "the user's qwenrun.ini" '^context = 11 ; .*/home/.config/qwenrun/qwenrun.ini:2$'
t_run -c mine config
t_out_has "a preset by name" '^context = 12 ; .*/mine.ini:2$'
t_out_has "over the user's qwenrun.ini" '^prefill = 11 ; '
t_run config -c mine -c "$t_dir/own.ini"
t_out_has "a later file wins" '^context = 13 ; .*/own.ini:2$'
t_out_has "a path starts at its file" "^target = $t_dir/m.gguf ; "
t_run config -o model.context=15 -c mine -o model.context=14
t_out_has "-o wins" '^context = 14 ; -o$'
t_run config -o model.target=m.gguf
t_out_has "a path of -o starts here" '^target = m.gguf ; -o$'
# shellcheck disable=SC2088 # the program expands it
t_run config -o model.target="~/m.gguf"
t_out_has "a path below the home folder" "^target = $HOME/m.gguf ; -o\$"
t_run config -c nosuch
t_refused "no such preset" 2 'nosuch.ini'
t_run config -c ./nosuch
t_refused "no such file" 2 './nosuch: No such file'
t_run config -c "$t_dir"
t_refused "a folder is no file" 2 'Is a directory'
rm -r "$HOME"
t_run config
t_status_is "HOME does not exist" 0
t_what="env -i qwenrun config"
t_status=0
env -i "$t_program" config >"$t_out" 2>"$t_err" || t_status=$?
t_status_is "no environment" 0
has_setting "no environment: the shipped model is found" "$(grep '^target = .*gguf' "$t_dir/plain")"

# ---- JSON ----
t_run config --json -c "$cases/i04-bom-crlf.ini" -o device.memory_reserve='1 MiB'
json "JSON: a number" settings/model/context/value 4096
json "JSON: file" settings/model/context/file "$cases/i04-bom-crlf.ini"
json "JSON: line" settings/sampling/seed/line 4
json "JSON: origin" settings/device/memory_reserve/origin -o
json "JSON: bytes" settings/device/memory_reserve/bytes 1048576
json "JSON: default" settings/sampling/top_p/origin default
json "JSON: decimal" settings/sampling/top_p/value 0.95
json "JSON: truth" settings/speculation/adaptive/value False
json "JSON: files" files/0 "$cases/i04-bom-crlf.ini"
t_run config --json -o model.target="$(printf 'a\377b')"
json "JSON: bytes that are no UTF-8" settings/model/target/value 'a\xffb'
t_run config -o "$(printf 'chat.system=a\033[2Jb')"
t_out_has "controls are not written raw" 'system = a\\x1b\[2Jb'

# The text form is an INI file that sets the same.
t_run config -c ci
sed 's/ ; .*//' "$t_out" >"$t_dir/again.ini"
t_run config -c "$t_dir/again.ini"
sed 's/ ; .*//' "$t_out" >"$t_dir/again"
t_same "config reads what config wrote" "$t_dir/again.ini" "$t_dir/again"

# ---- command line ----
t_run
t_refused "no command" 2 'no command'
t_run cnofig
t_refused "an unknown command" 2 "cnofig.*'config'"
t_run config --jsno
t_refused "an unknown option" 2 'jsno.*--json'
t_run config -x
t_refused "an unknown letter" 2 'unknown option -x'
t_run -x config
t_refused "an option before the command" 2 'unknown option -x'
t_run config -o
t_refused "an option without its value" 2 '-o needs SECTION.KEY=VALUE'
t_run config --json=yes
t_refused "a flag with a value" 2 'json takes no value'
t_run config word
t_refused "a word too many" 2 'word'
t_run config -o model.contxt=1
t_refused "an unknown key" 2 'model.context?'
t_run config -o model.context
t_refused "no value in -o" 2 'SECTION.KEY=VALUE'
t_run config -o speculation.n_max=2 -o speculation.n_min=3
t_refused "settings that contradict each other" 2 'n_min = 3 (-o).*n_max = 2 (-o)'
t_run --json -qo model.context=77 config -omodel.context=78 --
json "joined letters, attached values" settings/model/context/value 78
t_run --version
t_status_is "--version" 0
t_out_has "--version" '^qwenrun [0-9]'
t_run --help
t_status_is "--help" 0
t_out_has "--help lists the commands" '^  config '
t_out_has "--help lists the settings" '^  context = 4096 '
t_run config --help --nosuch
t_status_is "--help does not hide mistakes" 2
t_run config -o log.file="$t_dir/no/log"
t_refused "a log that cannot be opened" 2 'log'
t_run config -c "$cases/i05-duplicates.ini" -o log.file="$t_dir/log"
t_err_lines "log.file takes the messages" 0
t_ok "log.file has them" grep -q 'set again' "$t_dir/log"

# ---- output that cannot be written ----
if [ -w /dev/full ]; then
    t_what="qwenrun config >/dev/full"
    t_status=0
    "$t_program" config >/dev/full 2>"$t_err" || t_status=$?
    t_status_is "a full disk" 1
    t_err_has "a full disk is named" 'No space left'
else
    t_skip "a full disk" "no /dev/full"
fi
t_what="qwenrun config >&-"
t_status=0
"$t_program" config >&- 2>"$t_err" || t_status=$?
t_status_is "a closed output" 1
t_end
