/* Messages of the two forms. Each function writes the one spelling of the message that a document is; false: none. */
#ifndef LAZILY_MESSAGE_H
#define LAZILY_MESSAGE_H

#include <stdbool.h>

#include "fields.h"
#include "lazily.h"

/* The form with a "type" field. */
bool lz_write_seed_message(LzContext *context, LazilyFfiMessageKind *kind);

/* The form of published peers: one key that names the kind. */
bool lz_write_published_message(LzContext *context, LazilyFfiMessageKind *kind);

/* Decodes a frame of either form and writes it again; `output` is for lz_output_free in any case. */
LzResult lz_rewrite(const uint8_t *frame, size_t length, LzOutput *output, LazilyFfiMessageKind *kind);

#endif
