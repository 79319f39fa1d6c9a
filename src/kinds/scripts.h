/* The scripts of src/kinds/lua, as the build embeds them (see
 * cmake/ScriptEmbed.cmake). Each file's head says what it takes and answers. */
#ifndef HF__KINDS_SCRIPTS_H
#define HF__KINDS_SCRIPTS_H

#include "base/script.h"

extern const hf__script hf__script_lock_acquire;
extern const hf__script hf__script_lock_release;
extern const hf__script hf__script_lock_renew;
extern const hf__script hf__script_lock_force;
extern const hf__script hf__script_lock_probe;

#endif
