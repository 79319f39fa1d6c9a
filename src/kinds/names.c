#include "kinds/names.h"

void hf__name_prefixed(hf__buf *out, hf__slice prefix, hf__slice name)
{
    bool braced = memchr(name.data, '{', name.length) != NULL;
    hf__buf_append(out, prefix.data, prefix.length);
    hf__buf_append(out, braced ? ":" : ":{", braced ? 1 : 2);
    hf__buf_append(out, name.data, name.length);
    if (!braced) {
        hf__buf_append(out, "}", 1);
    }
}
