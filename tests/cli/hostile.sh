# SPDX-License-Identifier: MIT
# Hostile and careless use: names and texts that are no UTF-8 in every JSON document, zero bytes,
# kernels built against the host, budgets and stop texts together, interrupts before there is an
# answer, caches that cannot be written.
. "${srcdir:-.}/tests/cli/lib.sh"
model=$t_models/tiny-qwen35-q4_0.gguf
few="-o sampling.max_tokens=4"

# is_json NAME: stdout is one whole document in UTF-8, and it has these bytes in it
is_json() {
    if ! command -v iconv >/dev/null; then
        t_skip "$1" "no iconv"
    elif [ "$(head -c 1 "$t_out")" = '{' ] && [ "$(tail -n 1 "$t_out")" = '}' ] &&
        iconv -f UTF-8 -t UTF-8 "$t_out" >"$t_dir/utf8" 2>&1 && grep -q -F -e "$2" "$t_out"; then
        t_pass "$1"
    else
        t_fail "$1" "no JSON document with '$2'"
    fi
}

# a file name may be any bytes
byte=$(printf '\377')
odd=$t_dir/odd$byte.gguf
cp "$model" "$odd"
for command in info plan config "run $few -p x"; do
    # shellcheck disable=SC2086 # a command and its options
    t_run $command --json -o model.target="$odd" </dev/null
    t_status_is "${command%% *} --json, a name that is no UTF-8" 0
    is_json "${command%% *} --json says it escaped" 'odd\\xff.gguf'
done
t_run info -o model.target="$odd"
t_out_has "info in words too" 'odd\\xff.gguf'
t_run plan -o model.target="$odd"
t_out_has "plan in words too" 'odd\\xff.gguf'
# shellcheck disable=SC2086
t_run run $few --json -p x -o sampling.stop="$byte" </dev/null
t_status_is "a stop text that is no UTF-8" 0
is_json "run --json says it escaped" '\\xff'
surrogate=$(printf '\355\240\200')
t_run config --json -o chat.system="$surrogate"
is_json "config --json with a surrogate" '\\xed\\xa0\\x80'
t_run run -p x -o chat.system="$surrogate" </dev/null
t_refused "a system message that is no UTF-8" 2 'chat.system'
t_run run -p "$surrogate" </dev/null
t_refused "a prompt that is no UTF-8" 2 'UTF-8'

# zero bytes: none cuts what follows
printf 'a\000b' | "$t_program" tokenize >"$t_dir/ids"
t_run tokenize --decode --json <"$t_dir/ids"
is_json "tokenize --decode --json of a zero byte" 'a\u0000b'
printf '39 412\000 321' >"$t_dir/ids"
t_run tokenize --decode <"$t_dir/ids"
t_refused "a zero byte between ids" 2 'x00'

# what the host lays out is not for a kernel's parameters to say
for choice in gdn=generic:QW_DK=8 embed=generic:QW_CPU=0 matmul_q4_0=generic:QW_PARTIALS=8; do
    t_run run -p x -o "kernels.$choice" </dev/null
    t_refused "kernels.$choice" 2 'no build parameters'
done
t_run config -c ''
t_refused "no name behind -c" 2 '-c'

# a thinking budget: stop texts and max_tokens count for the closing tokens as for all others
ask() { # ARGS...: finish_reason and completion_tokens of a thinking answer
    t_run run --json -o chat.thinking=on -p 'Why is the sky blue?' "$@" </dev/null
    sed -n 's/.*"finish_reason": "\([a-z]*\)".*/\1/p; s/.*"completion_tokens": \([0-9]*\).*/\1/p' \
        "$t_out" | tr '\n' ' '
}
t_ok "budget at max_tokens" \
    [ "$(ask -o sampling.max_tokens=3 -o chat.thinking_budget=3)" = "length 3 " ]
t_ok "budget just below max_tokens" \
    [ "$(ask -o sampling.max_tokens=3 -o chat.thinking_budget=2)" = "length 3 " ]
t_ok "max_tokens within the closing" \
    [ "$(ask -o sampling.max_tokens=4 -o chat.thinking_budget=2)" = "length 4 " ]
t_ok "a stop text within the closing" \
    [ "$(ask -o sampling.max_tokens=30 -o chat.thinking_budget=2 -o 'sampling.stop=</think>')" = "stop 4 " ]
t_run run --json -o chat.thinking=on -p 'Why is the sky blue?' -o sampling.max_tokens=30 \
    -o chat.thinking_budget=2 -o 'sampling.stop=hink' </dev/null
t_out_has "and nothing is said behind it" '"text": ".*</t"'
t_run run --json -o chat.thinking=on -p 'Why is the sky blue?' -o sampling.max_tokens=30 \
    -o chat.thinking_budget=2 </dev/null
t_out_has "without one the thought is closed and answered" '</think>\\n\\n[^"]'

# the reason why stdout cannot be written
if [ -w /dev/full ]; then
    for json in "" --json; do
        t_what="run $json >/dev/full"
        t_status=0
        # shellcheck disable=SC2086
        "$t_program" run $few $json -q -p x >/dev/full 2>"$t_err" </dev/null || t_status=$?
        t_status_is "stdout is full $json" 1
        t_err_has "it says why $json" 'No space left'
        t_err_lines "in one line $json" 1
    done
fi

# interrupts while there is no answer yet: at once, whatever the driver's compiler is doing
interrupt() { # NAME SECONDS ENVIRONMENT ARGS...
    name=$1
    seconds=$2
    set -- "$3" "$4" "$5" "$6"
    t_what="$* interrupted"
    env --default-signal=INT "$1" "$t_program" run "$2" "$3" ${4:+"$4"} >"$t_out" 2>"$t_err" </dev/null &
    pid=$!
    sleep "$seconds"
    kill -INT $pid
    t_status=0
    wait $pid || t_status=$?
    t_refused "$name" 130 'interrupted'
}
mkdir "$t_dir/cold"
interrupt "Ctrl-C while kernels are compiled" 2 "POCL_CACHE_DIR=$t_dir/cold" -p x -q
mkfifo "$t_dir/fifo"
interrupt "Ctrl-C while a prompt is awaited" 1 "A=1" -f "$t_dir/fifo" -q

# a kernel cache that cannot be one
: >"$t_dir/file"
"$t_program" run -q -p x -o sampling.max_tokens=4 >"$t_dir/plain" </dev/null
TMPDIR=$t_dir
export TMPDIR
for cache in POCL_CACHE_DIR="$t_dir/file" POCL_CACHE_DIR="$t_dir/file/below" HOME="$t_dir/file" HOME= \
    XDG_CACHE_HOME="$t_dir/file" HOME="$t_dir/nohome"; do
    t_what="env $cache"
    keep=POCL_CACHE_DIR
    case $cache in POCL*) keep=A ;; esac
    t_status=0
    env -u $keep -u XDG_CACHE_HOME "$cache" "$t_program" run -q -p x -o sampling.max_tokens=4 \
        >"$t_out" 2>"$t_err" </dev/null || t_status=$?
    t_same "cache: ${cache%%=*} = ${cache##*/}" "$t_out" "$t_dir/plain"
done
t_ok "no home was made" [ ! -e "$t_dir/nohome" ]
t_end
