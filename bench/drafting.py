#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What drafting brings: decode speed of each drafter over plain decoding, in interleaved rounds.

usage: drafting.py PROGRAM PROMPTS.json OUT.json [ROUNDS [TOKENS]] [-- OPTIONS of run]

A round runs every setting once on every prompt, one after the other, so that all settings see the same
machine. Ratios are taken within a round; the table shows their median and tenth percentile. Answers
must be equal, or the bench stops.
"""
import json
import os
import statistics
import subprocess
import sys

SETTINGS = [
    ("plain", ["speculation.method=none"]),
    ("dflash", ["speculation.method=dflash"]),
    ("ngram", ["speculation.method=ngram"]),
    ("dflash adaptive", ["speculation.method=dflash", "speculation.adaptive=yes"]),
    ("ngram adaptive", ["speculation.method=ngram", "speculation.adaptive=yes"]),
]


def run(program, prompt, tokens, settings, extra):
    cmd = [program, "run", "--raw", "--specials", "--json", "-q", "-p", prompt, "-o", f"sampling.max_tokens={tokens}"]
    for s in settings:
        cmd += ["-o", s]
    out = subprocess.run(cmd + extra, stdout=subprocess.PIPE, check=True, stdin=subprocess.DEVNULL)
    return json.loads(out.stdout)


def command():
    """The command line as a record keeps it: without the folders of the machine."""
    return " ".join(os.path.basename(a) if os.path.isabs(a) else a for a in sys.argv)


def p10(values):
    values = sorted(values)
    return values[max(0, (len(values) + 9) // 10 - 1)]


def main():
    args, extra = sys.argv[1:], []
    if "--" in args:
        extra = args[args.index("--") + 1:]
        args = args[:args.index("--")]
    program, prompts, out = args[:3]
    rounds = int(args[3]) if len(args) > 3 else 5
    tokens = int(args[4]) if len(args) > 4 else 256
    with open(prompts, encoding="utf-8") as f:
        prompts = [p for p in json.load(f)["prompts"] if len(p["ids"]) < 512]
    speed = {p["name"]: {n: [] for n, _ in SETTINGS} for p in prompts}
    seen, identity, made = {}, None, {}
    for prompt in prompts:
        run(program, prompt["text"], 8, SETTINGS[1][1], extra)  # kernels are compiled before anything is timed
    for _ in range(rounds):
        for prompt in prompts:
            for name, settings in SETTINGS:
                r = run(program, prompt["text"], tokens, settings, extra)
                answer = seen.setdefault(prompt["name"], r["ids"])
                if answer != r["ids"]:
                    sys.exit(f"{prompt['name']}: {name} gives another answer")
                identity, made[prompt["name"]] = r["identity"], len(r["ids"])
                speed[prompt["name"]][name].append({"tok_s": r["timings"]["decode_tok_s"], "speculation": r["speculation"]})
    result = {"command": command(), "rounds": rounds, "tokens": tokens, "identity": identity, "prompts": {}}
    print(f"{'prompt':12} {'tokens':>6} {'plain tok/s':>11}   ratio to plain: median (p10)")
    for prompt in prompts:
        name, rows = prompt["name"], speed[prompt["name"]]
        if made[name] < 32:
            continue  # too short an answer to time
        plain = [x["tok_s"] for x in rows["plain"]]
        entry = {"tokens": made[name], "plain_tok_s": statistics.median(plain)}
        line = f"{name:12} {made[name]:6} {entry['plain_tok_s']:11.1f}  "
        for other, _ in SETTINGS[1:]:
            ratio = [x["tok_s"] / p for x, p in zip(rows[other], plain)]
            s = rows[other][-1]["speculation"]
            entry[other] = {"ratio_median": statistics.median(ratio), "ratio_p10": p10(ratio), "ratios": ratio,
                            "drafted": s["drafted"], "accepted": s["accepted"], "cycles": s["cycles"]}
            line += f" {other} {entry[other]['ratio_median']:.2f} ({entry[other]['ratio_p10']:.2f})"
        result["prompts"][name] = entry
        print(line)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
