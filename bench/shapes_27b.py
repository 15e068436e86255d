#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The 27B model and its drafter as files without weights: all metadata and tensor shapes, the data a hole.

usage: shapes_27b.py FOLDER

Writes FOLDER/target.gguf (Q4_0, head Q6_K) and FOLDER/draft.gguf (Q8_0), 17 GB by name and some kilobytes
on the disk. They are for `qwenrun plan`, which reads no weights; whatever else reads them finds zeros.
"""
import os
import struct
import sys

U32, F32, BOOL, STR, ARR, I32 = 4, 6, 7, 8, 9, 5
PACKED = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}
TYPES = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34), "Q6_K": (14, 256, 210)}
ALIGN = 32
LAYERS, EMBD, FF, VOCAB = 64, 5120, 17408, 248320
HEADS, KV_HEADS, HEAD = 24, 4, 256
KEY_HEADS, VALUE_HEADS, STATE, TAPS = 16, 48, 128, 4
CONTEXT, EPS, ROPE_BASE = 262144, 1e-6, 1e7


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(kind, v):
    if kind == STR:
        return string(v)
    return struct.pack(PACKED[kind], v)


def key(name, kind, v):
    if isinstance(v, (list, tuple)):
        return string(name) + struct.pack("<IIQ", ARR, kind, len(v)) + b"".join(value(kind, x) for x in v)
    return string(name) + struct.pack("<I", kind) + value(kind, v)


def target():
    """Keys and tensors (name, columns, rows, type) of the target."""
    a = "qwen35."
    keys = [("general.architecture", STR, "qwen35"), ("general.name", STR, "shapes of Qwen3.6-27B"),
            (a + "block_count", U32, LAYERS), (a + "context_length", U32, CONTEXT),
            (a + "embedding_length", U32, EMBD), (a + "feed_forward_length", U32, FF),
            (a + "attention.head_count", U32, HEADS), (a + "attention.head_count_kv", U32, KV_HEADS),
            (a + "attention.key_length", U32, HEAD), (a + "attention.value_length", U32, HEAD),
            (a + "attention.layer_norm_rms_epsilon", F32, EPS), (a + "rope.dimension_count", U32, 64),
            (a + "rope.dimension_sections", I32, [11, 11, 10, 0]), (a + "rope.freq_base", F32, ROPE_BASE),
            (a + "full_attention_interval", U32, 4), (a + "ssm.conv_kernel", U32, TAPS),
            (a + "ssm.state_size", U32, STATE), (a + "ssm.group_count", U32, KEY_HEADS),
            (a + "ssm.time_step_rank", U32, VALUE_HEADS), (a + "ssm.inner_size", U32, VALUE_HEADS * STATE),
            ("tokenizer.ggml.model", STR, "none")]
    values = VALUE_HEADS * STATE
    mixed = 2 * KEY_HEADS * STATE + values
    gdn = [("attn_qkv.weight", EMBD, mixed, "Q4_0"), ("attn_gate.weight", EMBD, values, "Q4_0"),
           ("ssm_alpha.weight", EMBD, VALUE_HEADS, "Q4_0"), ("ssm_beta.weight", EMBD, VALUE_HEADS, "Q4_0"),
           ("ssm_conv1d.weight", TAPS, mixed, "F32"), ("ssm_dt.bias", VALUE_HEADS, 0, "F32"),
           ("ssm_a", VALUE_HEADS, 0, "F32"), ("ssm_norm.weight", STATE, 0, "F32"),
           ("ssm_out.weight", values, EMBD, "Q4_0")]
    full = [("attn_q.weight", EMBD, 2 * HEADS * HEAD, "Q4_0"), ("attn_k.weight", EMBD, KV_HEADS * HEAD, "Q4_0"),
            ("attn_v.weight", EMBD, KV_HEADS * HEAD, "Q4_0"), ("attn_output.weight", HEADS * HEAD, EMBD, "Q4_0"),
            ("attn_q_norm.weight", HEAD, 0, "F32"), ("attn_k_norm.weight", HEAD, 0, "F32")]
    both = [("attn_norm.weight", EMBD, 0, "F32"), ("post_attention_norm.weight", EMBD, 0, "F32"),
            ("ffn_gate.weight", EMBD, FF, "Q4_0"), ("ffn_up.weight", EMBD, FF, "Q4_0"),
            ("ffn_down.weight", FF, EMBD, "Q4_0")]
    tensors = [("token_embd.weight", EMBD, VOCAB, "Q4_0"), ("output_norm.weight", EMBD, 0, "F32"),
               ("output.weight", EMBD, VOCAB, "Q6_K")]
    for i in range(LAYERS):
        for name, *shape in both + (full if (i + 1) % 4 == 0 else gdn):
            tensors.append((f"blk.{i}.{name}", *shape))
    return keys, tensors


def draft():
    """The same of the drafter."""
    a, layers, heads, kv_heads, head, taps = "dflash.", 5, 32, 8, 128, [2, 17, 32, 47, 62]
    keys = [("general.architecture", STR, "dflash"), ("general.name", STR, "shapes of its DFlash drafter"),
            (a + "block_count", U32, layers), (a + "context_length", U32, CONTEXT),
            (a + "embedding_length", U32, EMBD), (a + "feed_forward_length", U32, FF),
            (a + "attention.head_count", U32, heads), (a + "attention.head_count_kv", U32, kv_heads),
            (a + "attention.key_length", U32, head), (a + "attention.value_length", U32, head),
            (a + "attention.layer_norm_rms_epsilon", F32, EPS), (a + "rope.dimension_count", U32, head),
            (a + "rope.freq_base", F32, ROPE_BASE), (a + "block_size", U32, 16), (a + "target_layers", I32, taps),
            (a + "attention.sliding_window", U32, 2048),
            (a + "attention.sliding_window_pattern", BOOL, [True, True, True, True, False]),
            ("tokenizer.ggml.model", STR, "none"), ("tokenizer.ggml.mask_token_id", U32, 248070)]
    tensors = [("fc.weight", len(taps) * EMBD, EMBD, "Q8_0"), ("enc.output_norm.weight", EMBD, 0, "F32"),
               ("output_norm.weight", EMBD, 0, "F32")]
    for i in range(layers):
        for name, *shape in (("attn_norm.weight", EMBD, 0, "F32"), ("ffn_norm.weight", EMBD, 0, "F32"),
                             ("attn_q.weight", EMBD, heads * head, "Q8_0"),
                             ("attn_k.weight", EMBD, kv_heads * head, "Q8_0"),
                             ("attn_v.weight", EMBD, kv_heads * head, "Q8_0"),
                             ("attn_output.weight", heads * head, EMBD, "Q8_0"),
                             ("attn_q_norm.weight", head, 0, "F32"), ("attn_k_norm.weight", head, 0, "F32"),
                             ("ffn_gate.weight", EMBD, FF, "Q8_0"), ("ffn_up.weight", EMBD, FF, "Q8_0"),
                             ("ffn_down.weight", FF, EMBD, "Q8_0")):
            tensors.append((f"blk.{i}.{name}", *shape))
    return keys, tensors


def write(path, keys, tensors):
    infos, at = b"", 0
    for name, columns, rows, kind in tensors:
        number, block, size = TYPES[kind]
        shape = (columns, rows) if rows else (columns,)
        infos += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, at)
        at += (columns // block * size * (rows or 1) + ALIGN - 1) // ALIGN * ALIGN
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(key(*k) for k in keys) + infos
    head += bytes(-len(head) % ALIGN)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + at)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, make in (("target", target), ("draft", draft)):
        write(os.path.join(sys.argv[1], name + ".gguf"), *make())


if __name__ == "__main__":
    main()
