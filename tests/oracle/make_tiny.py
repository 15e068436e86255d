# SPDX-License-Identifier: MIT
"""Write a tiny random `qwen35` target (with one MTP block) and a matching `dflash` draft.
usage: make_tiny.py OUTDIR [matrix type: F32 (default), F16, BF16, Q8_0 or Q4_0] [seed]"""
import os
import sys
import numpy as np
from ggufio import U32, I32, F32, BOOL, STR, ARR, write
T = dict(E=128, ff=256, layers=8, mtp=1, heads=4, kv=2, hd=64, rot=16, sec=[3, 3, 2, 0], theta=1e7, eps=1e-6,
         dk=32, nk=2, nv=6, conv=4, vocab=300, interval=4, ctx=512)
D = dict(layers=3, heads=4, kv=2, hd=32, ff=192, block=8, win=16, swa=[True, True, False], taps=[2, 4, 7], theta=1e7, mask=299)


def target(path, mt, rng):
    c = T
    a = 'qwen35.'
    kv = [('general.architecture', STR, 'qwen35'), (a + 'block_count', U32, c['layers'] + c['mtp']), (a + 'context_length', U32, c['ctx']),
          (a + 'embedding_length', U32, c['E']), (a + 'feed_forward_length', U32, c['ff']), (a + 'attention.head_count', U32, c['heads']),
          (a + 'attention.head_count_kv', U32, c['kv']), (a + 'attention.key_length', U32, c['hd']), (a + 'attention.value_length', U32, c['hd']),
          (a + 'rope.dimension_count', U32, c['rot']), (a + 'rope.dimension_sections', (ARR, I32), c['sec']), (a + 'rope.freq_base', F32, c['theta']),
          (a + 'attention.layer_norm_rms_epsilon', F32, c['eps']), (a + 'ssm.conv_kernel', U32, c['conv']), (a + 'ssm.state_size', U32, c['dk']),
          (a + 'ssm.group_count', U32, c['nk']), (a + 'ssm.time_step_rank', U32, c['nv']), (a + 'ssm.inner_size', U32, c['dk'] * c['nv']),
          (a + 'full_attention_interval', U32, c['interval']), (a + 'nextn_predict_layers', U32, c['mtp']), (a + 'vocab_size', U32, c['vocab']),
          ('tokenizer.ggml.model', STR, 'none')]
    w = {}

    def t(n, *shape, s=None, off=0.0, small=False):
        s = 1 / np.sqrt(shape[-1]) if s is None else s
        x = (rng.standard_normal(shape) * s + off).astype(np.float32)
        w[n] = ('F32' if len(shape) == 1 or small else mt, x)
    E, F = c['E'], c['ff']
    kd, vd = c['dk'] * c['nk'], c['dk'] * c['nv']
    t('token_embd.weight', c['vocab'], E, s=1.0)
    t('output_norm.weight', E, s=.2, off=1)
    t('output.weight', c['vocab'], E)
    for i in range(c['layers'] + c['mtp']):
        p = f'blk.{i}.'
        t(p + 'attn_norm.weight', E, s=.2, off=1)
        t(p + 'post_attention_norm.weight', E, s=.2, off=1)
        if i < c['layers'] and (i + 1) % c['interval']:
            t(p + 'attn_qkv.weight', 2 * kd + vd, E)
            t(p + 'attn_gate.weight', vd, E)
            t(p + 'ssm_conv1d.weight', 2 * kd + vd, c['conv'], s=.5, small=True)
            t(p + 'ssm_dt.bias', c['nv'], s=.5)
            w[p + 'ssm_a'] = ('F32', (-np.exp(rng.uniform(-2, 1.5, c['nv']))).astype(np.float32))
            t(p + 'ssm_beta.weight', c['nv'], E)
            t(p + 'ssm_alpha.weight', c['nv'], E)
            t(p + 'ssm_norm.weight', c['dk'], s=.2, off=1)
            t(p + 'ssm_out.weight', E, vd)
        else:
            t(p + 'attn_q.weight', 2 * c['heads'] * c['hd'], E)
            t(p + 'attn_k.weight', c['kv'] * c['hd'], E)
            t(p + 'attn_v.weight', c['kv'] * c['hd'], E)
            t(p + 'attn_output.weight', E, c['heads'] * c['hd'])
            t(p + 'attn_q_norm.weight', c['hd'], s=.3, off=1.5)
            t(p + 'attn_k_norm.weight', c['hd'], s=.3, off=1.5)
        t(p + 'ffn_gate.weight', F, E)
        t(p + 'ffn_up.weight', F, E)
        t(p + 'ffn_down.weight', E, F)
        if i >= c['layers']:
            t(p + 'nextn.eh_proj.weight', E, 2 * E)
            for n in ('enorm', 'hnorm', 'shared_head_norm'):
                t(p + f'nextn.{n}.weight', E, s=.2, off=1)
    write(path, kv, w)


def draft(path, mt, rng):
    d, E, a = D, T['E'], 'dflash.'
    kv = [('general.architecture', STR, 'dflash'), (a + 'block_count', U32, d['layers']), (a + 'context_length', U32, T['ctx']),
          (a + 'embedding_length', U32, E), (a + 'feed_forward_length', U32, d['ff']), (a + 'attention.head_count', U32, d['heads']),
          (a + 'attention.head_count_kv', U32, d['kv']), (a + 'attention.key_length', U32, d['hd']), (a + 'attention.value_length', U32, d['hd']),
          (a + 'rope.freq_base', F32, d['theta']), (a + 'attention.layer_norm_rms_epsilon', F32, 1e-6), (a + 'block_size', U32, d['block']),
          (a + 'target_layers', (ARR, I32), d['taps']), (a + 'attention.sliding_window', U32, d['win']),
          (a + 'attention.sliding_window_pattern', (ARR, BOOL), d['swa']), (a + 'rope.dimension_sections', (ARR, I32), [d['hd'] // 2, 0, 0, 0]),
          (a + 'vocab_size', U32, T['vocab']), ('tokenizer.ggml.model', STR, 'none'), ('tokenizer.ggml.mask_token_id', U32, d['mask'])]
    w = {}

    def t(n, *shape, s=None, off=0.0):
        s = 1 / np.sqrt(shape[-1]) if s is None else s
        w[n] = ('F32' if len(shape) == 1 else mt, (rng.standard_normal(shape) * s + off).astype(np.float32))
    t('fc.weight', E, E * len(d['taps']))
    t('enc.output_norm.weight', E, s=.2, off=1)
    t('output_norm.weight', E, s=.2, off=1)
    for i in range(d['layers']):
        p = f'blk.{i}.'
        t(p + 'attn_norm.weight', E, s=.2, off=1)
        t(p + 'ffn_norm.weight', E, s=.2, off=1)
        t(p + 'attn_q.weight', d['heads'] * d['hd'], E)
        t(p + 'attn_k.weight', d['kv'] * d['hd'], E)
        t(p + 'attn_v.weight', d['kv'] * d['hd'], E)
        t(p + 'attn_output.weight', E, d['heads'] * d['hd'])
        t(p + 'attn_q_norm.weight', d['hd'], s=.3, off=1.5)
        t(p + 'attn_k_norm.weight', d['hd'], s=.3, off=1.5)
        t(p + 'ffn_gate.weight', d['ff'], E)
        t(p + 'ffn_up.weight', d['ff'], E)
        t(p + 'ffn_down.weight', E, d['ff'])
    write(path, kv, w)


if __name__ == '__main__':
    out = sys.argv[1]
    mt = sys.argv[2] if len(sys.argv) > 2 else 'F32'
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 7)
    target(os.path.join(out, 't.gguf'), mt, rng)
    draft(os.path.join(out, 'd.gguf'), mt, rng)
