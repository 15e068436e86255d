/* SPDX-License-Identifier: MIT */
/* weights.h - the tensors of a file as buffers of a device: matrices packed with their
 * siblings, small vectors as f32. Planned without a device, filled piece by piece. */
#ifndef QW_WEIGHTS_H
#define QW_WEIGHTS_H

#include "dev.h"
#include "gguf.h"
#include "ops.h"
#include "pack_file.h"

/* Lay out m: the n tensors of a layer (layer < 0: of none) with these suffixes, which the
 * file has, in slabs that fit the device's largest buffer. Adds its size to *bytes. */
int qw_weights_plan(struct qw_mat *m, const struct qw_gguf *g, int layer,
                    const char *const *suffix, int n, uint64_t max_alloc, uint64_t *bytes,
                    struct qw_err *err);

/* One walk over the weights of a file: where it reads, where it writes, how far it is. */
struct qw_loader {
    const struct qw_gguf *file;
    const struct qw_kern *kern;      /* that will read them: which layouts they want */
    struct qw_dev *dev;              /* where to load to, or NULL */
    const struct qw_pack_file *pack; /* where packed tiles come from, NULL: packed here */
    struct qw_save_writer *to;       /* the pack to write; nothing is loaded then */
    uint64_t done, total;            /* bytes */
    unsigned char *stage;            /* one piece of packed tiles */
    size_t stage_size;
    struct qw_progress progress;
    struct qw_err *err;
};

/* total: bytes that will be loaded; progress on a terminal when show. kern, dev, pack,
 * to: as above; with no dev and no `to` the walk just looks whether the pack has every
 * matrix.
 */
void qw_loader_open(struct qw_loader *l, const struct qw_gguf *g,
                    const struct qw_kern *kern, struct qw_dev *dev,
                    const struct qw_pack_file *pack, struct qw_save_writer *to,
                    uint64_t total, bool show, struct qw_err *err);
/* rc: how the loading went. QW_EFILE where the file changed meanwhile. */
int qw_loader_close(struct qw_loader *l, int rc);
/* Fill the buffers of a planned matrix; nothing to do where it has no parts. */
int qw_loader_mat(struct qw_loader *l, struct qw_mat *m);
/* A small tensor, decoded to f32. taps > 0: given as [n / taps][taps], wanted as [taps][n
 * / taps]. */
int qw_loader_vector(struct qw_loader *l, int layer, const char *suffix, int taps,
                     cl_mem *out);

/* Release what a matrix holds; dev may be NULL where nothing was loaded. */
void qw_weights_close(struct qw_dev *dev, struct qw_mat *m);
#endif
