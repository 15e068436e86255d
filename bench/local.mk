# SPDX-License-Identifier: MIT
# Self-contained: also built by hand on a machine with a GPU.
EXTRA_PROGRAMS += bench/bench_order
bench_bench_order_SOURCES = bench/bench_order.c
bench_bench_order_LDADD = $(DEPS_LIBS)
EXTRA_DIST += bench/results/order-of-sums-h200.json bench/results/h200-generic.json \
	bench/results/h200-drafting.json bench/results/drafting-h200.json bench/drafting.py
EXTRA_DIST += bench/results/order-of-sums.json docs/order-of-sums.md
EXTRA_DIST += docs/negative-results.md docs/speed.md bench/acceptance.py bench/results/acceptance.json
EXTRA_DIST += bench/xe2_model.py bench/xe2_asm.py bench/shapes_27b.py bench/results/xe2-model.json
