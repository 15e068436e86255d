/* SPDX-License-Identifier: MIT */
/* test_kernels.h - the tests of the program test_kernels, by file. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

/* test_kernels.c */
void embed(void);
void norm(void);
void norm_rounding(void);
void swiglu(void);
void argmax(void);
void numbers(void);
/* test_kernels_gdn.c */
void conv(void);
void gdn(void);
void gdn_splits(void);
void gdn_tape(void);
void gdn_gates(void);
void l2_norm(void);
/* test_kernels_attn.c */
void rope_rows(void);
void qk(void);
void qk_draft(void);
void attn(void);
void attn_not_finite(void);
void attn_draft(void);
void attn_seen(void);
void ring(void);
/* test_kernels_draft.c */
void norm_into(void);
void hidden(void);
void draft_steps(void);
/* test_kernels_cycle.c */
void tap(void);
void top10(void);
void draft_end(void);
void verify_begin(void);
void accepting(void);
#endif
