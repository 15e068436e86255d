#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many drafted tokens the target accepts, beside what a peer's run of the same pair gave.

usage: acceptance.py PROGRAM PROMPTS.json OUT.json

Greedy, 192 tokens, the shipped pair, drafts of fixed length. Accepted over drafted, for a drafter's cache
in F16 and in Q8_0. The peer's counts are those of models/tiny/README.md, "DFlash".
"""
import json
import sys

from drafting import command, run

PEER = {
    "code": {4: (148, 193), 5: (155, 211), 8: (158, 317), 15: (158, 588)},
    "prose": {4: (145, 205), 5: (147, 251), 8: (155, 351), 15: (148, 753)},
    "chat_json": {4: (60, 60), 5: (61, 70), 8: (63, 96), 15: (63, 180)},
}
PEER_DOCS_5 = (40, 133)  # 64 tokens
LENGTHS = (4, 5, 8, 15)
CACHES = {"f16": [], "q8_0": ["kv.draft=q8_0", "kv.allow_lossy_draft=yes"]}


def percent(pair):
    return 100.0 * pair[0] / pair[1]


def pooled(pairs):
    pairs = list(pairs)
    return [sum(p[0] for p in pairs), sum(p[1] for p in pairs)]


def count(program, prompt, tokens, n_max, settings, ids):
    fixed = ["sampling.temperature=0", "speculation.method=dflash", f"speculation.n_max={n_max}",
             "speculation.adaptive=no", "model.normalize=none"]
    r = run(program, prompt["text"], tokens, fixed + settings, [])
    if r["prompt_ids"] != prompt["ids"]:
        sys.exit(f"{prompt['name']}: the text gives other ids than the golden prompt")
    if ids.setdefault((prompt["name"], tokens), r["ids"]) != r["ids"]:
        sys.exit(f"{prompt['name']}: the draft changes the answer")
    return [r["speculation"]["accepted"], r["speculation"]["drafted"]], r["identity"]


def main():
    program, prompts, out = sys.argv[1:4]
    with open(prompts, encoding="utf-8") as f:
        prompts = {p["name"]: p for p in json.load(f)["prompts"]}
    ids, table = {}, {}
    for cache, settings in CACHES.items():
        for n in LENGTHS:
            row = {}
            for name in prompts:
                row[name], identity = count(program, prompts[name], 192, n, settings, ids)
            table.setdefault(cache, {})[n] = row
    docs, _ = count(program, prompts["docs"], 64, 5, [], ids)
    result = {"command": command(), "identity": identity, "counts": "[accepted, drafted]",
              "docs_64_tokens_n_max_5": {"ours": docs, "peer": PEER_DOCS_5}, "n_max": {}}
    print("n_max  peer's three prompts, F16: ours, the peer's (%), points   all golden prompts: F16, Q8_0 (%)")
    worst = 0.0
    for n in LENGTHS:
        ours, peer = pooled(table["f16"][n][p] for p in PEER), pooled(PEER[p][n] for p in PEER)
        every = {c: pooled(table[c][n].values()) for c in CACHES}
        points = percent(ours) - percent(peer)
        worst = max(worst, abs(points))
        result["n_max"][n] = {"ours": ours, "peer": peer, "points": round(points, 2), "all_prompts": every,
                              "by_prompt": {c: table[c][n] for c in CACHES}, "peer_by_prompt": {p: PEER[p][n] for p in PEER}}
        print(f"{n:5}  {ours[0]:5}/{ours[1]:<5} {percent(ours):5.1f}  {percent(peer):5.1f}  {points:+5.1f}"
              f"            {percent(every['f16']):5.1f}  {percent(every['q8_0']):5.1f}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    if worst > 5.0:
        sys.exit("more than 5 points from the peer's")


if __name__ == "__main__":
    main()
