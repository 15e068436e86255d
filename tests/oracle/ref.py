# SPDX-License-Identifier: MIT
"""float64 reference for `qwen35` + `dflash`, written from model.md and dflash.md; reads the GGUF files of make_tiny.py.
usage: ref.py DIR            -> writes golden .f32 files (little-endian float32, row-major) and golden.txt into DIR
KV cache models: 'exact', 'f16', 'q8rot' (rotated Q8_0, as llama.cpp does by default), 'q8' (no rotation).
ACT = True also rounds matmul inputs the way the llama.cpp CPU backend does (x86 build): Q8_0 blocks for Q4_0/Q8_0
weights, F16 for F16, BF16 for BF16."""
import os
import sys
import numpy as np
from ggufio import read
KVMODE = 'exact'
ACT = False


def rms(x, w=None, eps=1e-6):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if w is None else y * w


def sig(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sig(x)


def softplus(x):
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def rope(x, pos, nrot, theta):                     # x[T][H][d]; pairs (i, i + nrot/2); dims >= nrot untouched
    h = nrot // 2
    a = pos[:, None] * theta ** (-2.0 * np.arange(h) / nrot)
    c, s = np.cos(a)[:, None], np.sin(a)[:, None]
    y = x.copy()
    y[..., :h] = x[..., :h] * c - x[..., h:nrot] * s
    y[..., h:nrot] = x[..., :h] * s + x[..., h:nrot] * c
    return y


def q8(x):
    y = x.astype(np.float32).reshape(-1, 32)
    am = np.abs(y).max(1, keepdims=True)
    d = (am / np.float32(127)).astype(np.float16).astype(np.float64)
    i = np.divide(np.float32(127), am, out=np.zeros_like(am), where=am > 0)
    return (np.rint(y * i) * d).reshape(x.shape)


def bf16(x):
    u = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Weights(dict):                               # float64 arrays plus the stored type of each
    def mm(s, x, n):
        t = s.types[n] if ACT else 'F32'
        if t in ('Q4_0', 'Q8_0'):
            x = q8(x)
        elif t == 'F16':
            x = x.astype(np.float16).astype(np.float64)
        elif t == 'BF16':
            x = bf16(x)
        return x @ s[n].T


def load(path):
    kv, w, types = read(path)
    W = Weights((n, a.astype(np.float64)) for n, a in w.items())
    W.types = types
    return kv, W


def had(x, n):                                     # orthonormal Sylvester-Hadamard on consecutive chunks of n along the last axis
    H = np.array([[1.0]])
    while len(H) < n:
        H = np.block([[H, H], [H, -H]])
    return (x.reshape(-1, n) @ (H / np.sqrt(n))).reshape(x.shape)


def attention(q, K, V, qpos, kpos, causal=True, win=0):
    hd = q.shape[-1]
    nk = hd & -hd                                  # largest power of two dividing the head size
    if KVMODE == 'f16':
        q, K, V = (a.astype(np.float16).astype(np.float64) for a in (q, K, V))
    if KVMODE == 'q8rot':
        q, K, V = q8(had(q, nk)), q8(had(K, nk)), q8(had(V, 64))
    if KVMODE == 'q8':
        q, K, V = q8(q), q8(K), q8(V)
    G = q.shape[1] // K.shape[1]
    o = np.zeros(q.shape)
    for h in range(q.shape[1]):
        s = q[:, h] @ K[:, h // G].T / np.sqrt(hd)
        m = np.zeros(s.shape, bool)
        if causal:
            m |= kpos[None] > qpos[:, None]
        if win:
            m |= qpos[:, None] - kpos[None] >= win
        s = np.where(m, -np.inf, s)
        p = np.exp(s - s.max(-1, keepdims=True))
        o[:, h] = p / p.sum(-1, keepdims=True) @ V[:, h // G]
    return had(o, 64) if KVMODE == 'q8rot' else o


class Target:
    def __init__(s, path):
        s.kv, s.W = load(path)
        k = lambda n: s.kv['qwen35.' + n]
        s.mtp_layers = s.kv.get('qwen35.nextn_predict_layers', 0)
        s.L = k('block_count') - s.mtp_layers
        s.E, s.H, s.G, s.hd = k('embedding_length'), k('attention.head_count'), k('attention.head_count_kv'), k('attention.key_length')
        s.rot, s.theta, s.eps = k('rope.dimension_count'), k('rope.freq_base'), k('attention.layer_norm_rms_epsilon')
        s.dk, s.nk, s.nv, s.ck, s.iv = k('ssm.state_size'), k('ssm.group_count'), k('ssm.time_step_rank'), k('ssm.conv_kernel'), k('full_attention_interval')
        s.reset()

    def reset(s):
        s.n, s.conv, s.S, s.K, s.V = 0, {}, {}, {}, {}
        for i in range(s.L):
            if (i + 1) % s.iv:
                s.conv[i] = np.zeros((s.ck - 1, s.dk * (2 * s.nk + s.nv)))
                s.S[i] = np.zeros((s.nv, s.dk, s.dk))           # [v head][value index][key index]
            else:
                s.K[i] = s.V[i] = np.zeros((0, s.G, s.hd))

    def gdn(s, i, x):
        w = lambda n: s.W[f'blk.{i}.{n}']
        m = lambda x, n: s.W.mm(x, f'blk.{i}.{n}')
        n, kd, d = len(x), s.dk * s.nk, s.dk
        u, z = m(x, 'attn_qkv.weight'), m(x, 'attn_gate.weight')
        beta = sig(m(x, 'ssm_beta.weight'))
        g = softplus(m(x, 'ssm_alpha.weight') + w('ssm_dt.bias')) * w('ssm_a')
        hist = np.concatenate([s.conv[i], u])
        y = silu(sum(hist[j:j + n] * w('ssm_conv1d.weight')[:, j] for j in range(s.ck)))
        s.conv[i] = hist[-(s.ck - 1):].copy()
        l2 = lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True) + s.eps)
        q = l2(y[:, :kd].reshape(n, s.nk, d)) / np.sqrt(d)
        k = l2(y[:, kd:2 * kd].reshape(n, s.nk, d))
        v = y[:, 2 * kd:].reshape(n, s.nv, d)
        S, o = s.S[i], np.zeros((n, s.nv, d))
        for t in range(n):
            for h in range(s.nv):
                hk = h % s.nk
                S[h] *= np.exp(g[t, h])
                S[h] += np.outer((v[t, h] - S[h] @ k[t, hk]) * beta[t, h], k[t, hk])
                o[t, h] = S[h] @ q[t, hk]
        o = rms(o, w('ssm_norm.weight'), s.eps) * silu(z.reshape(n, s.nv, d))
        return m(o.reshape(n, -1), 'ssm_out.weight')

    def attn(s, i, x, pos, K, V):
        w = lambda n: s.W[f'blk.{i}.{n}.weight']
        m = lambda x, n: s.W.mm(x, f'blk.{i}.{n}.weight')
        n = len(x)
        qg = m(x, 'attn_q').reshape(n, s.H, 2, s.hd)       # per head: q then gate
        k = m(x, 'attn_k').reshape(n, s.G, s.hd)
        v = m(x, 'attn_v').reshape(n, s.G, s.hd)
        q = rope(rms(qg[:, :, 0], w('attn_q_norm'), s.eps), pos, s.rot, s.theta)
        k = rope(rms(k, w('attn_k_norm'), s.eps), pos, s.rot, s.theta)
        K, V = np.concatenate([K, k]), np.concatenate([V, v])
        kpos = np.concatenate([np.arange(len(K) - n), pos])
        o = attention(q, K, V, pos, kpos) * sig(qg[:, :, 1])
        return m(o.reshape(n, -1), 'attn_output'), K, V

    def ffn(s, i, x):
        m = lambda x, n: s.W.mm(x, f'blk.{i}.{n}.weight')
        return m(silu(m(x, 'ffn_gate')) * m(x, 'ffn_up'), 'ffn_down')

    def forward(s, toks, taps=()):
        """returns logits, normed hidden rows, tapped features (concatenated in the order of taps)"""
        x = s.W['token_embd.weight'][toks]
        pos = np.arange(s.n, s.n + len(toks))
        f = {}
        for i in range(s.L):
            f[i] = x
            h = rms(x, s.W[f'blk.{i}.attn_norm.weight'], s.eps)
            if i in s.S:
                a = s.gdn(i, h)
            else:
                a, s.K[i], s.V[i] = s.attn(i, h, pos, s.K[i], s.V[i])
            x = x + a
            x = x + s.ffn(i, rms(x, s.W[f'blk.{i}.post_attention_norm.weight'], s.eps))
        f[s.L] = x
        s.n += len(toks)
        hn = rms(x, s.W['output_norm.weight'], s.eps)
        head = 'output.weight' if 'output.weight' in s.W else 'token_embd.weight'
        return s.W.mm(hn, head), hn, (np.concatenate([f[t] for t in taps], 1) if taps else None)

    def mtp(s, toks, h, pos):
        i = s.L
        w = lambda n: s.W[f'blk.{i}.nextn.{n}.weight']
        x = np.concatenate([rms(s.W['token_embd.weight'][toks], w('enorm'), s.eps), rms(h, w('hnorm'), s.eps)], 1)
        x = s.W.mm(x, f'blk.{i}.nextn.eh_proj.weight')
        z = np.zeros((0, s.G, s.hd))
        x = x + s.attn(i, rms(x, s.W[f'blk.{i}.attn_norm.weight'], s.eps), pos, z, z)[0]
        x = x + s.ffn(i, rms(x, s.W[f'blk.{i}.post_attention_norm.weight'], s.eps))
        hn = rms(x, w('shared_head_norm'), s.eps)
        return s.W.mm(hn, 'output.weight'), hn


class Draft:
    def __init__(s, path, target):
        s.kv, s.W = load(path)
        s.t = target
        k = lambda n: s.kv['dflash.' + n]
        s.L, s.H, s.G, s.hd = k('block_count'), k('attention.head_count'), k('attention.head_count_kv'), k('attention.key_length')
        s.theta, s.eps, s.win, s.taps = k('rope.freq_base'), k('attention.layer_norm_rms_epsilon'), k('attention.sliding_window'), k('target_layers')
        s.swa = k('attention.sliding_window_pattern')
        s.K = [np.zeros((0, s.G, s.hd))] * s.L
        s.V, s.n = list(s.K), 0

    def kvproj(s, i, g, pos):
        w = lambda n: s.W[f'blk.{i}.{n}.weight']
        m = lambda x, n: s.W.mm(x, f'blk.{i}.{n}.weight')
        k = m(g, 'attn_k').reshape(len(g), s.G, s.hd)
        return rope(rms(k, w('attn_k_norm'), s.eps), pos, s.hd, s.theta), m(g, 'attn_v').reshape(len(g), s.G, s.hd)

    def inject(s, feat):
        g = rms(s.W.mm(feat, 'fc.weight'), s.W['enc.output_norm.weight'], s.eps)
        pos = np.arange(s.n, s.n + len(g))
        s.n += len(g)
        for i in range(s.L):
            k, v = s.kvproj(i, g, pos)
            s.K[i], s.V[i] = np.concatenate([s.K[i], k]), np.concatenate([s.V[i], v])

    def block(s, toks, swa_causal=False):
        x = s.t.W['token_embd.weight'][toks]
        pos = np.arange(s.n, s.n + len(toks))
        for i in range(s.L):
            w = lambda n: s.W[f'blk.{i}.{n}.weight']
            m = lambda x, n: s.W.mm(x, f'blk.{i}.{n}.weight')
            h = rms(x, w('attn_norm'), s.eps)
            q = rope(rms(m(h, 'attn_q').reshape(len(x), s.H, s.hd), w('attn_q_norm'), s.eps), pos, s.hd, s.theta)
            k, v = s.kvproj(i, h, pos)
            K, V = np.concatenate([s.K[i], k]), np.concatenate([s.V[i], v])
            o = attention(q, K, V, pos, np.arange(len(K)), causal=swa_causal and s.swa[i], win=s.win if s.swa[i] else 0)
            x = x + m(o.reshape(len(x), -1), 'attn_output')
            h = rms(x, w('ffn_norm'), s.eps)
            x = x + m(silu(m(h, 'ffn_gate')) * m(h, 'ffn_up'), 'ffn_down')
        return s.t.W.mm(rms(x, s.W['output_norm.weight'], s.eps), 'output.weight')


def golden(d):
    global KVMODE, ACT
    out, log = {}, []
    t = Target(os.path.join(d, 't.gguf'))
    V = len(t.W['token_embd.weight'])
    toks = [(i * 37 + 11) % V for i in range(40)]
    for KVMODE in ('f16', 'q8rot', 'q8', 'exact'):
        t.reset()
        out['logits_' + KVMODE] = t.forward(toks)[0]           # 40 rows
    ACT, KVMODE = True, 'f16'
    t.reset()
    out['logits_act_f16'] = t.forward(toks)[0]
    KVMODE = 'q8rot'
    t.reset()
    out['logits_act_q8rot'] = t.forward(toks)[0]
    KVMODE = 'exact'
    t.reset()
    out['logits_act'] = t.forward(toks)[0]                     # activation rounding, exact KV
    ACT = False
    t.reset()
    dr = Draft(os.path.join(d, 'd.gguf'), t)
    out['features'] = t.forward(toks[:30], taps=dr.taps)[2]    # 30 rows
    dr.inject(out['features'])
    blk = [toks[30]] + [dr.kv['tokenizer.ggml.mask_token_id']] * 5
    out['block'] = dr.block(blk)                               # 6 rows, tokens toks[30] + 5 masks at positions 30..35
    t.reset()
    out['hidden'] = t.forward(toks[:12])[1]                    # 12 rows, after output_norm
    hs = np.concatenate([np.zeros((1, t.E)), out['hidden'][:-1]])
    out['mtp_logits'], out['mtp_hidden'] = t.mtp(toks[:12], hs, np.arange(12))
    t.reset()
    t.forward(toks[:20])
    out['state_S_20'] = np.stack([t.S[i] for i in sorted(t.S)])           # [gdn layer][v head][value][key]
    out['state_conv_20'] = np.stack([t.conv[i].T for i in sorted(t.conv)])  # [gdn layer][channel][3], oldest first
    for n, a in out.items():
        a.astype('<f4').tofile(os.path.join(d, n + '.f32'))
        log.append(f'{n} shape {list(a.shape)} absmax {np.abs(a).max():.4f}')
    log.append('tokens ' + ' '.join(map(str, toks)))
    log.append('argmax_exact ' + ' '.join(map(str, out['logits_exact'].argmax(-1))))
    log.append('argmax_block ' + ' '.join(map(str, out['block'].argmax(-1))))
    open(os.path.join(d, 'golden.txt'), 'w').write('\n'.join(log) + '\n')
    return out


if __name__ == '__main__':
    golden(sys.argv[1])
