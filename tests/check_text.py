#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_text.py SOURCE TOK_TOOL VOCAB.gguf [SEED] - the real vocabulary: expected ids of cases/text both ways, decoding,
and generated texts against tests/oracle/tok.py. Characters come from the oracle's Unicode version only."""
import json
import os
import random
import subprocess
import sys
import unicodedata

source, tool, vocab = sys.argv[1:4]
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 20261201
sys.path.insert(0, os.path.join(source, "tests", "oracle"))
import tok  # noqa: E402

passed = failed = 0


def run(texts, normalize, mode):
    p = subprocess.run([tool, vocab, normalize, mode], input=b"".join(t + b"\0" for t in texts), stdout=subprocess.PIPE,
                       check=True)
    return [[int(i) for i in line.split()] for line in p.stdout.decode().split("\n")[:-1]]


def decode(rows):
    p = subprocess.run([tool, vocab, "none", "decode"], input="".join(" ".join(map(str, r)) + "\n" for r in rows).encode(),
                       stdout=subprocess.PIPE, check=True)
    return p.stdout.split(b"\0")[:-1]


def check(name, got, want, texts):
    global passed, failed
    wrong = [i for i in range(len(want)) if i >= len(got) or got[i] != want[i]]
    for i in wrong[:5]:
        print("  %s: %a\n    got  %a\n    want %a" % (name, texts[i], got[i] if i < len(got) else None, want[i]))
    passed += not wrong
    failed += bool(wrong)
    print("%s %s (%d texts)" % ("FAIL" if wrong else "ok", name, len(want)))


def expected_ids():
    with open(os.path.join(source, "tests", "cases", "text", "tokens.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f if line.strip()]
    texts = [r["text"].encode() for r in rows]
    check("user text", run(texts, "nfc", "user"), [r["ids"] for r in rows], texts)
    check("template text", run(texts, "nfc", "specials"), [r.get("ids_if_specials_parsed", r["ids"]) for r in rows], texts)
    composed = [unicodedata.normalize("NFC", r["text"]).encode() for r in rows]
    check("decoding", decode([r["ids"] for r in rows]), composed, texts)
    check("decoding special tokens", decode([r.get("ids_if_specials_parsed", r["ids"]) for r in rows]), composed, texts)


def pools():
    kinds = {}
    for c in range(1, 0x110000):
        kinds.setdefault(unicodedata.category(chr(c)), []).append(c)
    for unused in ("Cn", "Cs", "Co"):
        kinds.pop(unused, None)
    scripts = [range(a, b) for a, b in ((0x61, 0x7B), (0xC0, 0x180), (0x3B1, 0x3CA), (0x410, 0x450), (0x5D0, 0x5EB),
                                        (0x627, 0x64B), (0x905, 0x940), (0xE01, 0xE30), (0x3041, 0x3097), (0x4E00, 0x9000),
                                        (0xAC00, 0xD7A4), (0x1F600, 0x1F650))]
    return list(kinds.values()), scripts


PIECES = ["the", " of", " function", "return", "ing", "'s", "'LL", "'re", "'", "\n", "\n\n", "\r\n", " ", "  ", "\t", "    ",
          "123", "3.14", "==", "...", "!!!!!!", "://", "{}", "_x", "Ab", "\u00a0", "\u3000", "\u0085", "\u200d", "\ufe0f",
          "e\u0301", "\u0915\u094d", "\u212a", "\u017f", "<|im_end|>", "<|im_start|>", "<think>", "</think>", "<tool_call>",
          "<|im_", "<th", "|>"]
BROKEN = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x9a", b"\xc1\x81", b"\xed\xa0\x80", b"\xe0\x80\xaf"]


def text(r, kinds, scripts):
    out = b""
    for _ in range(r.randint(1, 12)):
        k = r.random()
        if k < 0.5:
            out += r.choice(PIECES).encode()
        elif k < 0.75:
            s = r.choice(scripts)
            out += "".join(chr(r.choice(s)) for _ in range(r.randint(1, 6))).encode()
        elif k < 0.97:
            out += "".join(chr(r.choice(r.choice(kinds))) for _ in range(r.randint(1, 3))).encode()
        else:
            out += r.choice(BROKEN)
    return out


def generated(n):
    r = random.Random(seed)
    print("seed %d, Unicode %s in the oracle" % (seed, unicodedata.unidata_version))
    kinds, scripts = pools()
    texts = [text(r, kinds, scripts) for _ in range(n)]
    oracle = tok.Tok(vocab)
    check("generated, special tokens read", run(texts, "none", "specials"), [oracle.encode(t, True) for t in texts], texts)
    oracle.specials = []
    plain = [oracle.encode(t, False) for t in texts]
    check("generated, as user text", run(texts, "none", "user"), plain, texts)
    valid = [(t, i) for t, i in zip(texts, plain) if b"\xff" not in t and tok_valid(t)]
    check("generated, back again", decode([i for _, i in valid]), [t for t, _ in valid], [t for t, _ in valid])
    composed = [unicodedata.normalize("NFC", t.decode()).encode() for t, _ in valid]
    check("generated, composed", run([t for t, _ in valid], "nfc", "user"), [oracle.encode(c, False) for c in composed],
          [t for t, _ in valid])


def tok_valid(t):
    try:
        t.decode()
    except UnicodeDecodeError:
        return False
    return True


expected_ids()
generated(5000)
print("%d passed, %d failed" % (passed, failed))
sys.exit(1 if failed else 0)
