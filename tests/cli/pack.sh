#!/bin/sh
# SPDX-License-Identifier: MIT
# Pack files: made once, used, never believed when they are not what they should be.
. "${srcdir:-.}/tests/cli/lib.sh"
packs=$t_dir/packs
target=$packs/$(sha256sum <"$t_models/tiny-qwen35-q4_0.gguf" | cut -c 1-32).qwpack
draft=$packs/$(sha256sum <"$t_models/tiny-qwen35-dflash-q8_0.gguf" | cut -c 1-32).qwpack

# answer NAME FOLDER: the text and all logits are those of a run without packs.
run_with() {
    t_run run --raw --logits-hash -o model.pack="$1" -o sampling.max_tokens=12 -o model.context=256 \
        -p 'def add(a, b):'
}
answer() {
    run_with "$2"
    sed -n 's/^qwenrun: logits_sha256 //p' "$t_err" >"$t_dir/hash"
    if [ "$t_status" -eq 0 ] && cmp -s "$t_out" "$t_dir/plain" && cmp -s "$t_dir/hash" "$t_dir/plain-hash"; then
        t_pass "$1: same bits"
    else
        t_fail "$1: same bits"
    fi
}
only_packs() { [ "$(find "$packs" -type f | wc -l)" -eq "$1" ] && [ -f "$target" ]; }
sum() { sha256sum <"$1"; }

run_with off
cp "$t_out" "$t_dir/plain"
sed -n 's/^qwenrun: logits_sha256 //p' "$t_err" >"$t_dir/plain-hash"
t_ok "the plain run has a hash" test -s "$t_dir/plain-hash"

t_run pack
t_refused "no folder" 2 'model.pack is off'
t_run pack -o model.pack="$packs"
t_status_is "pack" 0
t_out_has "the target's is made" "$target: [0-9]* bytes, made from .*q4_0.gguf"
t_out_has "the drafter's is made" "$draft: [0-9]* bytes, made from .*dflash"
t_ok "nothing else is left" only_packs 2
before=$(sum "$target")
t_run pack -o model.pack="$packs" --json
t_status_is "pack again" 0
t_out_has "it is there already" '"written": false'
t_ok "not written" sh -c "! grep -q '\"written\": true' '$t_out'"
t_run pack --again -o model.pack="$packs" --json
t_out_has "--again writes" '"written": true'
t_ok "the same bytes" test "$before" = "$(sum "$target")"
answer "from packs" "$packs"
t_ok "nothing is said of a good pack" sh -c "! grep -qi pack '$t_err'"

# damage NAME REASON COMMAND...: after the command the pack is refused, made anew, and right again.
damage() {
    t_name=$1
    t_reason=$2
    shift 2
    "$@" || exit 99
    answer "$t_name" "$packs"
    if [ "$(grep -c 'made anew' "$t_err")" -eq 1 ]; then t_pass "$t_name: said once"; else t_fail "$t_name: said once"; fi
    t_err_has "$t_name: the reason" "$t_reason"
    t_ok "$t_name: good again" test "$before" = "$(sum "$target")"
}
flip() { printf '\125' | dd of="$target" bs=1 seek="$1" conv=notrunc 2>/dev/null; }
cut_to() { head -c "$1" "$target" >"$t_dir/cut" && cat "$t_dir/cut" >"$target"; }
damage "a flipped weight" 'checksum differs' flip 3000001
damage "a flipped header" 'qwpack' flip 120
damage "cut in the middle" 'cut at byte' cut_to 4000000
damage "empty" 'starts otherwise' cut_to 0
damage "another model's" 'another model file' cp "$draft" "$target"
damage "a text" 'starts otherwise' cp "$t_src/LICENSE" "$target"

rm -rf "$packs"
answer "a folder that is not there yet" "$packs"
t_ok "made on the way" test "$before" = "$(sum "$target")"
: >"$t_dir/file"
answer "a folder that is a file" "$t_dir/file"
t_err_has "said" 'loading without a pack file'
t_run pack -o model.pack="$t_dir/file"
t_refused "pack needs a folder" 3 'file/'

rm -rf "$packs"
i=0
while [ $i -lt 4 ]; do
    "$t_program" run --raw -q -o model.pack="$packs" -o sampling.max_tokens=12 -o model.context=256 \
        -p 'def add(a, b):' >"$t_dir/at-once.$i" 2>&1 &
    i=$((i + 1))
done
wait
i=0
while [ $i -lt 4 ]; do
    t_ok "four at once, $i" cmp -s "$t_dir/at-once.$i" "$t_dir/plain"
    i=$((i + 1))
done
t_ok "four at once leave two files" only_packs 2
t_ok "four at once: the pack is good" test "$before" = "$(sum "$target")"
t_end
