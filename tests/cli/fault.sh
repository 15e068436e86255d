# SPDX-License-Identifier: MIT
# A device that fails or is small (tests/clfault.c, preloaded): every case ends with the documented
# status and one clear message, and a model that fits a small device gives the same answer.
. "${srcdir:-.}/tests/cli/lib.sh"
shim=${builddir:-.}/tests/clfault.so
[ -e "$shim" ] || { echo "no shim at $shim"; exit 99; }
model=$t_models/tiny-qwen35-q4_0.gguf
prompt='def add(a, b):'

# faulty "VAR=value ..." ARGS...: run the program under the shim. ASan wants to come first.
faulty() {
    settings=$1
    shift
    t_what="$settings qwenrun $*"
    t_status=0
    # shellcheck disable=SC2086 # a list of settings
    env $settings LD_PRELOAD="${ASAN_LIBRARY:+$ASAN_LIBRARY:}$shim" "$t_program" "$@" \
        >"$t_out" 2>"$t_err" </dev/null || t_status=$?
}
value() { sed -n "s/^$1 //p" "$2"; }

run_args="run --raw -q -o model.target=$model -o sampling.max_tokens=12"
answer() { # shellcheck disable=SC2086
    faulty "$1" $run_args -p "$prompt"
}

answer "CLF_COUNT=$t_dir/count12"
t_status_is "plain run" 0
cp "$t_out" "$t_dir/plain"

answer "CLF_MAX_ALLOC=524288"
t_status_is "largest buffer 512 KiB: works" 0
t_same "largest buffer 512 KiB: same answer" "$t_out" "$t_dir/plain"
answer "CLF_MAX_ALLOC=268435456"
t_same "largest buffer 256 MiB: same answer" "$t_out" "$t_dir/plain"

answer "CLF_TOTAL=8000000"
t_refused "small memory is refused" 4 'bytes needed, .* free.*model.context'
grep -q 'batch.prefill' "$t_err" && grep -q 'kv.target' "$t_err"
t_ok "it names the keys that lower the need" [ $? -eq 0 ]
answer "CLF_TOTAL=8000000 CLF_COUNT=$t_dir/refused"
t_ok "refused before loading: no buffer was made" [ "$(value buffers "$t_dir/refused")" = 0 ]

for n in 1 50 200; do
    answer "CLF_FAIL_ENQUEUE=$n"
    t_status_is "launch $n fails: status" 4
    t_err_has "launch $n fails: message" 'CL_OUT_OF_RESOURCES'
done
for n in 1 3; do
    answer "CLF_FAIL_READ=$n"
    t_status_is "read $n fails: status" 4
    t_err_has "read $n fails: message" 'clEnqueueReadBuffer.*CL_OUT_OF_RESOURCES'
done
# the shipped pair: a drafter's own buffers, kernels and launches; a wait between two tokens
for fault in ENQUEUE=700 ENQUEUE=980 READ=4 WRITE=2 WRITE=128 FILL=2 KERNEL=1 KERNEL=300 BUFFER=1 \
    BUFFER=170 WAIT=2; do
    faulty "CLF_ONCE=1 CLF_FAIL_$fault" run --raw -q -o sampling.max_tokens=12 -p "$prompt"
    t_status_is "drafting, $fault fails: status" 4
    t_err_has "drafting, $fault fails: message" \
        'CL_OUT_OF_RESOURCES\|CL_MEM_OBJECT_ALLOCATION_FAILURE'
    t_err_lines "drafting, $fault fails: one line" 1
done
answer "CLF_FAIL_BUILD=1"
t_status_is "build fails: status" 4
t_err_has "build fails: the log is shown" 'clfault: build refused'
t_out_empty "build fails: no answer"
answer "CLF_NO_EXT=cl_khr_int64_base_atomics"
t_same "an extension less: same answer" "$t_out" "$t_dir/plain"

# Per token: one wait, one small write, nothing allocated. Count the difference that 8 tokens make.
# shellcheck disable=SC2086
faulty "CLF_COUNT=$t_dir/count20" $run_args -o sampling.max_tokens=20 -p "$prompt"
for what in buffers bytes kernels; do
    t_ok "8 more tokens: no more $what" \
        [ "$(value $what "$t_dir/count20")" -eq "$(value $what "$t_dir/count12")" ]
done
t_ok "8 more tokens: 8 more waits" \
    [ $(($(value waits "$t_dir/count20") - $(value waits "$t_dir/count12"))) -eq 8 ]

# plan says what run then asks for.
near() { # SETTINGS ARGS...: the plan's bytes and the bytes of a run's buffers, within 3 %
    limits=$1
    shift
    faulty "$limits" plan --json -o model.target="$model" "$@"
    planned=$(sed -n 's/.*"total_bytes": \([0-9]*\).*/\1/p' "$t_out")
    faulty "$limits CLF_COUNT=$t_dir/near" run --raw -q -o model.target="$model" \
        -o sampling.max_tokens=1 "$@" -p "$prompt"
    made=$(value bytes "$t_dir/near")
    echo "  planned $planned, made $made"
    [ $((planned * 100)) -le $((made * 103)) ] && [ $((planned * 103)) -ge $((made * 100)) ]
}
t_ok "plan = buffers" near "A=1"
t_ok "plan = buffers, context 1000" near "A=1" -o model.context=1000
t_ok "plan = buffers, Q8_0 cache, 16 rows" near "A=1" -o kv.target=q8_0 -o batch.prefill=16
t_ok "plan = buffers, 512 KiB at most" near "CLF_MAX_ALLOC=524288"

# Caches: nowhere to write, no environment at all, eight at once on an empty one.
t_what="env -i"
env -i "$t_program" run --raw -q -o model.target="$model" -o sampling.max_tokens=12 -p "$prompt" \
    >"$t_out" 2>"$t_err" </dev/null
t_same "env -i: same answer" "$t_out" "$t_dir/plain"
t_what="HOME=/nonexistent"
env -u POCL_CACHE_DIR -u XDG_CACHE_HOME HOME=/nonexistent "$t_program" run --raw -q \
    -o model.target="$model" -o sampling.max_tokens=12 -p "$prompt" >"$t_out" 2>"$t_err" </dev/null
t_same "HOME=/nonexistent: same answer" "$t_out" "$t_dir/plain"
mkdir "$t_dir/empty"
for i in 1 2 3 4 5 6 7 8; do
    POCL_CACHE_DIR=$t_dir/empty "$t_program" run --raw -q -o model.target="$model" \
        -o sampling.max_tokens=4 -o model.context=256 -p "$prompt" >"$t_dir/many$i" 2>&1 </dev/null &
done
wait
for i in 2 3 4 5 6 7 8; do
    t_same "eight at once on an empty cache: $i" "$t_dir/many1" "$t_dir/many$i"
done
t_ok "and they answered" [ -s "$t_dir/many1" ]
t_end
