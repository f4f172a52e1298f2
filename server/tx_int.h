/* SPDX-License-Identifier: BSD-3-Clause */
/* Between transmission.c (what comes in, cutting) and tx_answer.c (what goes out). */
#ifndef SERVER_TX_INT_H
#define SERVER_TX_INT_H

#include "server/transmission.h"

/* All fragments of r are done, or it never had any: answer it, or free it if nobody waits. */
void tx_request_finish(struct transmission *t, struct tx_request *r);

/* Back to the pools, with everything it holds. */
void tx_request_free(struct transmission *t, struct tx_request *r);
void tx_frag_free(struct tx_frag *f);

/* A fragment that never reaches the engine. */
void tx_frag_drop(struct tx_frag *f);

/* How many fragments of r may be in the engine at a time. */
uint32_t tx_out_max(const struct tx_request *r);

#endif
