#include "message.h"

LzResult lz_rewrite(const uint8_t *frame, size_t length, LzOutput *output, LazilyFfiMessageKind *kind)
{
    *kind = LazilyFfiMessageKind_Unknown;
    if (length > LAZILY_FFI_FRAME_BYTES_MAX)
        return LZ_INVALID;
    LzDocument document;
    LzResult result = lz_parse(&document, frame, length);
    if (result == LZ_OK) {
        LzContext context = {&document, output};
        LazilyFfiMessageKind found = LazilyFfiMessageKind_Unknown;
        bool is_message = lz_member(&document, 0, "type") != 0 ? lz_write_seed_message(&context, &found)
                                                               : lz_write_published_message(&context, &found);
        result = is_message ? output->result : LZ_INVALID;
        if (result == LZ_OK)
            *kind = found;
    }
    lz_document_free(&document);
    return result;
}
