/* Scripts: a real Lua 5.1 with the surface that Redis gives it. */
#include "sim/model_int.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SCRIPT_BUFFER_MAX ((size_t)16 * 1024 * 1024)

/* A script, compiled once. */
typedef struct script {
    char sha1[41];
    int function; /* its place in the registry */
    bool known;   /* to the server, since its start or the last flush */
    bool headed;  /* begins with "#!lua" */
    bool allow_oom;
    bool no_writes;
} script;

struct model_scripts {
    lua_State *lua;
    script *all;
    size_t count;
    size_t room;
    hf__buf reply;   /* of what a script calls */
    hf__slice *args; /* of the same */
    size_t args_room;
    model_call *call; /* the EVAL under way */
    model_script_run run;
    int database; /* which SELECT in a script changes for itself alone */
};

/* ------------------------------------------------------- replies into Lua */

static const char *push_reply(lua_State *lua, const char *at);

static const char *push_array(lua_State *lua, const char *at, int64_t count)
{
    if (count < 0) {
        lua_pushboolean(lua, 0);
        return at;
    }
    luaL_checkstack(lua, 4, "reply nested too deep");
    lua_createtable(lua, (int)count, 0);
    for (int i = 1; i <= count; i++) {
        at = push_reply(lua, at);
        lua_rawseti(lua, -2, i);
    }
    return at;
}

static void push_field(lua_State *lua, const char *name, hf__slice text)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text.data, text.length);
    lua_setfield(lua, -2, name);
}

/* One RESP value that the model itself wrote; returns its end. */
static const char *push_reply(lua_State *lua, const char *at)
{
    const char *end = strchr(at, '\r');
    hf__slice rest = {at + 1, (size_t)(end - at) - 1};
    int64_t number = 0;
    model_parse_integer(rest, &number);
    switch (*at) {
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return end + 2;
    case '+':
        push_field(lua, "ok", rest);
        return end + 2;
    case '-':
        push_field(lua, "err", rest);
        return end + 2;
    case '*':
        return push_array(lua, end + 2, number);
    default:
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return end + 2;
        }
        lua_pushlstring(lua, end + 2, (size_t)number);
        return end + 2 + number + 2;
    }
}

/* --------------------------------------------------------- redis.call etc. */

static model_scripts *scripts_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

static void push_error(lua_State *lua, const char *text)
{
    push_field(lua, "err", hf__slice_of(text));
}

/* The arguments as bytes, which Lua's stack keeps alive. */
static bool read_args(lua_State *lua, model_scripts *s, size_t count)
{
    if (count > s->args_room) {
        s->args_room = count * 2;
        s->args = model_grow(s->args, s->args_room * sizeof(*s->args));
    }
    for (size_t i = 0; i < count; i++) {
        int at = (int)i + 1;
        if (lua_type(lua, at) == LUA_TNUMBER) {
            char text[64];
            (void)snprintf(text, sizeof(text), "%.17g", lua_tonumber(lua, at));
            lua_pushstring(lua, text);
            lua_replace(lua, at);
        } else if (lua_type(lua, at) != LUA_TSTRING) {
            return false;
        }
        s->args[i].data = lua_tolstring(lua, at, &s->args[i].length);
    }
    return true;
}

static void push_called(lua_State *lua, model_scripts *s)
{
    size_t count = (size_t)lua_gettop(lua);
    if (count == 0) {
        push_error(lua, "ERR Please specify at least one argument for this "
                        "redis lib call");
        return;
    }
    if (!read_args(lua, s, count)) {
        push_error(lua, "ERR Lua redis lib command arguments must be strings "
                        "or integers");
        return;
    }
    hf__buf_clear(&s->reply);
    model_call call = {.m = s->call->m,
                       .conn = s->call->conn,
                       .args = s->args,
                       .count = count,
                       .database = &s->database,
                       .out = &s->reply,
                       .script = &s->run};
    model_execute_scripted(&call);
    s->call->changed |= call.changed;
    hf__buf_append(&s->reply, "", 1);
    if (s->reply.failed) {
        push_error(lua, "ERR the model has no room for this reply");
    } else {
        push_reply(lua, s->reply.data);
    }
}

static int redis_pcall(lua_State *lua)
{
    push_called(lua, scripts_of(lua));
    return 1;
}

static int redis_call(lua_State *lua)
{
    push_called(lua, scripts_of(lua));
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        bool failed = !lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (failed) {
            return lua_error(lua);
        }
    }
    return 1;
}

/* The model's user may run whatever there is. */
static int redis_acl_check_cmd(lua_State *lua)
{
    model_scripts *s = scripts_of(lua);
    size_t count = (size_t)lua_gettop(lua);
    const char *why = NULL;
    if (count == 0) {
        why =
            "ERR Please specify at least one argument for this redis lib call";
    } else if (!read_args(lua, s, count)) {
        why = "ERR Lua redis lib command arguments must be strings or integers";
    } else if (!model_command_find(s->args, count)) {
        why = "ERR Invalid command passed to redis.acl_check_cmd()";
    }
    if (why) {
        push_error(lua, why);
        return lua_error(lua);
    }
    lua_pushboolean(lua, 1);
    return 1;
}

/* What is no code and a text gets the code ERR. */
static int redis_error_reply(lua_State *lua)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    const char *text = lua_tostring(lua, 1);
    text += *text == '-';
    lua_pushfstring(lua, strchr(text, ' ') ? "%s" : "ERR %s", text);
    push_error(lua, lua_tostring(lua, -1));
    return 1;
}

static int redis_status_reply(lua_State *lua)
{
    size_t length;
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    const char *text = lua_tolstring(lua, 1, &length);
    push_field(lua, "ok", (hf__slice){text, length});
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    char hex[41];
    size_t length;
    if (lua_gettop(lua) != 1) {
        push_error(lua, "ERR wrong number of arguments");
        return lua_error(lua);
    }
    const char *text = lua_tolstring(lua, 1, &length);
    model_sha1((hf__slice){text ? text : "", text ? length : 0}, hex);
    lua_pushstring(lua, hex);
    return 1;
}

/* A table that was raised reaches pcall as its text, as in Redis 7. */
static int guarded_pcall(lua_State *lua)
{
    luaL_checkany(lua, 1);
    int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    lua_pushboolean(lua, status == 0);
    lua_insert(lua, 1);
    if (status != 0 && lua_istable(lua, 2)) {
        lua_getfield(lua, 2, "err");
        if (lua_isstring(lua, -1)) {
            lua_replace(lua, 2);
        } else {
            lua_pop(lua, 1);
        }
    }
    return lua_gettop(lua);
}

/* --------------------------------------------------------------- the state */

static int read_global(lua_State *lua)
{
    lua_pushvalue(lua, 2);
    lua_rawget(lua, lua_upvalueindex(1));
    if (lua_isnil(lua, -1)) {
        return luaL_error(lua,
                          "Script attempted to access nonexistent global "
                          "variable '%s'",
                          luaL_checkstring(lua, 2));
    }
    return 1;
}

static int write_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* Makes a table of what was raised, with the line at which it was. */
static int name_place(lua_State *lua)
{
    lua_Debug place;
    if (!lua_istable(lua, 1)) {
        lua_getglobal(lua, "tostring");
        lua_pushvalue(lua, 1);
        lua_call(lua, 1, 1);
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, -1));
        push_error(lua, lua_tostring(lua, -1));
        lua_replace(lua, 1);
        lua_settop(lua, 1);
    }
    for (int level = 1; level <= 2 && lua_getstack(lua, level, &place);
         level++) {
        lua_getinfo(lua, "Sl", &place);
        if (strcmp(place.what, "C") != 0) {
            lua_pushfstring(lua, "%s:%d", place.source, place.currentline);
            lua_setfield(lua, 1, "place");
            break;
        }
    }
    return 1;
}

/* What Redis has, without what would depend on anything but the script. */
static void open_libraries(lua_State *lua)
{
    static const luaL_Reg libraries[] = {{"", luaopen_base},
                                         {LUA_TABLIBNAME, luaopen_table},
                                         {LUA_STRLIBNAME, luaopen_string},
                                         {LUA_MATHLIBNAME, luaopen_math}};
    static const char *const withheld[] = {"dofile", "loadfile", "newproxy",
                                           "print",  "getfenv",  "setfenv",
                                           "module", "require"};
    static const char *const chance[] = {"random", "randomseed"};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        lua_pushcfunction(lua, libraries[i].func);
        lua_pushstring(lua, libraries[i].name);
        lua_call(lua, 1, 0);
    }
    for (size_t i = 0; i < sizeof(withheld) / sizeof(withheld[0]); i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, withheld[i]);
    }
    lua_getglobal(lua, LUA_MATHLIBNAME);
    for (size_t i = 0; i < sizeof(chance) / sizeof(chance[0]); i++) {
        lua_pushnil(lua);
        lua_setfield(lua, -2, chance[i]);
    }
    lua_pop(lua, 1);
    lua_pushcfunction(lua, guarded_pcall);
    lua_setglobal(lua, "pcall");
}

static void open_redis(model_scripts *s)
{
    static const luaL_Reg functions[] = {{"call", redis_call},
                                         {"pcall", redis_pcall},
                                         {"error_reply", redis_error_reply},
                                         {"status_reply", redis_status_reply},
                                         {"sha1hex", redis_sha1hex},
                                         {"acl_check_cmd", redis_acl_check_cmd},
                                         {NULL, NULL}};
    lua_newtable(s->lua);
    for (const luaL_Reg *f = functions; f->name; f++) {
        lua_pushlightuserdata(s->lua, s);
        lua_pushcclosure(s->lua, f->func, 1);
        lua_setfield(s->lua, -2, f->name);
    }
    lua_setglobal(s->lua, "redis");
}

/* Puts a table before the one on the stack: it can be read, but not written. */
static void shield(lua_State *lua, bool strict)
{
    lua_newtable(lua);
    lua_newtable(lua);
    lua_pushvalue(lua, -3);
    if (strict) {
        lua_pushcclosure(lua, read_global, 1);
    }
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, write_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_remove(lua, -2);
}

/* Scripts write no globals, and read none that is not there. KEYS and ARGV go
 * to the table behind. */
static void shield_globals(lua_State *lua)
{
    static const char *const libraries[] = {LUA_TABLIBNAME, LUA_STRLIBNAME,
                                            LUA_MATHLIBNAME, "redis"};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        lua_getglobal(lua, libraries[i]);
        shield(lua, false);
        lua_setglobal(lua, libraries[i]);
    }
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_setfield(lua, LUA_REGISTRYINDEX, "globals");
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    shield(lua, true);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "_G");
    lua_replace(lua, LUA_GLOBALSINDEX);
}

model_scripts *model_scripts_new(void)
{
    model_scripts *s = model_grow(NULL, sizeof(*s));
    *s = (model_scripts){.lua = luaL_newstate()};
    if (!s->lua) {
        abort();
    }
    hf__buf_init(&s->reply, SCRIPT_BUFFER_MAX);
    open_libraries(s->lua);
    open_redis(s);
    shield_globals(s->lua);
    return s;
}

void model_scripts_free(model_scripts *s)
{
    lua_close(s->lua);
    hf__buf_free(&s->reply);
    free(s->args);
    free(s->all);
    free(s);
}

void model_scripts_forget(model_scripts *s)
{
    for (size_t i = 0; i < s->count; i++) {
        s->all[i].known = false;
    }
}

/* --------------------------------------------------------------- compiling */

static bool is_word(const char *at, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(at, word, length) == 0;
}

/* "allow-oom,no-writes" */
static bool read_flags(script *made, const char *at, const char *end,
                       hf__buf *out)
{
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t length = (size_t)((comma ? comma : end) - at);
        if (is_word(at, length, "allow-oom")) {
            made->allow_oom = true;
        } else if (is_word(at, length, "no-writes")) {
            made->no_writes = true;
        } else if (!is_word(at, length, "allow-stale") &&
                   !is_word(at, length, "no-cluster")) {
            model_reply_error(out,
                              "ERR Unexpected flag in script shebang: %.*s",
                              (int)length, at);
            return false;
        }
        at += length + 1;
    }
    return true;
}

/* The first line, "#!lua flags=...", which Lua does not see. */
static bool read_head(script *made, hf__slice *text, hf__buf *out)
{
    if (!hf__slice_begins(*text, "#!")) {
        return true;
    }
    const char *end = memchr(text->data, '\n', text->length);
    if (!end) {
        model_reply_error(out, "ERR Invalid script shebang");
        return false;
    }
    const char *at = text->data;
    *text = (hf__slice){end, text->length - (size_t)(end - at)};
    made->headed = true;
    for (bool first = true; at < end; first = false) {
        size_t length = strcspn(at, " \n");
        bool flags = length > 6 && memcmp(at, "flags=", 6) == 0;
        if (first && !is_word(at, length, "#!lua")) {
            model_reply_error(out,
                              "ERR Unexpected engine in script shebang: %.*s",
                              (int)length, at);
            return false;
        }
        if (!first && length > 0 && !flags) {
            model_reply_error(out, "ERR Unknown lua shebang option: %.*s",
                              (int)length, at);
            return false;
        }
        if (flags && !read_flags(made, at + 6, at + length, out)) {
            return false;
        }
        at += length + 1;
    }
    return true;
}

static script *find(const model_scripts *s, const char *sha1)
{
    for (size_t i = 0; i < s->count; i++) {
        if (memcmp(s->all[i].sha1, sha1, 40) == 0) {
            return &s->all[i];
        }
    }
    return NULL;
}

/* NULL after an error, which is replied. */
static script *compile(model_scripts *s, hf__slice text, hf__buf *out)
{
    script made = {.known = true};
    model_sha1(text, made.sha1);
    script *old = find(s, made.sha1);
    if (old) {
        old->known = true;
        return old;
    }
    if (!read_head(&made, &text, out)) {
        return NULL;
    }
    if (luaL_loadbuffer(s->lua, text.data, text.length, "@user_script") != 0) {
        model_reply_error(out, "ERR Error compiling script (new function): %s",
                          lua_tostring(s->lua, -1));
        lua_pop(s->lua, 1);
        return NULL;
    }
    made.function = luaL_ref(s->lua, LUA_REGISTRYINDEX);
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 16;
        s->all = model_grow(s->all, s->room * sizeof(script));
    }
    s->all[s->count] = made;
    return &s->all[s->count++];
}

/* -------------------------------------------------------- replies from Lua */

static void reply_value(lua_State *lua, hf__buf *out);

/* Whether the table on the stack has that text in it; replies it. */
static bool reply_text_in(lua_State *lua, const char *name, hf__buf *out)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    bool found = lua_type(lua, -1) == LUA_TSTRING;
    if (found && *name == 'e') {
        hf__slice text = {lua_tostring(lua, -1), lua_objlen(lua, -1)};
        model_reply_error_bytes(out, text);
    } else if (found) {
        model_reply_status(out, lua_tostring(lua, -1));
    }
    lua_pop(lua, 1);
    return found;
}

/* Up to the first nil. */
static void reply_members(lua_State *lua, hf__buf *out)
{
    int count = 0;
    bool more = true;
    while (more) {
        lua_rawgeti(lua, -1, count + 1);
        more = !lua_isnil(lua, -1);
        count += more;
        lua_pop(lua, 1);
    }
    model_reply_array(out, (size_t)count);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, i);
        reply_value(lua, out);
    }
}

/* Pops it. */
static void reply_value(lua_State *lua, hf__buf *out)
{
    size_t length;
    const char *text;
    luaL_checkstack(lua, 4, "reply nested too deep");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &length);
        model_reply_bulk(out, (hf__slice){text, length});
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1)) {
            model_reply_integer(out, 1);
        } else {
            model_reply_nil(out);
        }
        break;
    case LUA_TNUMBER:
        model_reply_integer(out, (int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TTABLE:
        if (!reply_text_in(lua, "err", out) && !reply_text_in(lua, "ok", out)) {
            reply_members(lua, out);
        }
        break;
    default:
        model_reply_nil(out);
    }
    lua_pop(lua, 1);
}

static void reply_raised(lua_State *lua, const script *run, hf__buf *out)
{
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "place");
    const char *text = lua_tostring(lua, -2);
    const char *place = lua_tostring(lua, -1);
    if (place) {
        model_reply_error(out, "%s script: %s, on %s.",
                          text ? text : "ERR unknown", run->sha1, place);
    } else {
        model_reply_error(out, "%s", text ? text : "ERR unknown");
    }
    lua_pop(lua, 3);
}

/* ----------------------------------------------------------------- running */

static void set_table(lua_State *lua, const char *name, const hf__slice *words,
                      size_t count)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "globals");
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].data, words[i].length);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_setfield(lua, -2, name);
    lua_pop(lua, 1);
}

/* What its head says is asked before it runs. */
static bool may_begin(const model_call *call, const script *it)
{
    const char *why = NULL;
    if (!it->headed) {
        return true;
    }
    if (call->m->condition == MODEL_READ_ONLY && !it->no_writes) {
        why = "READONLY You can't write against a read only replica.";
    } else if (call->m->condition == MODEL_OUT_OF_MEMORY && !it->allow_oom &&
               !it->no_writes) {
        why = "OOM command not allowed when used memory > 'maxmemory'.";
    }
    if (why) {
        model_reply_error(call->out, "%s", why);
    }
    return why == NULL;
}

static void run_script(model_call *call, const script *it, size_t keys)
{
    model_scripts *s = call->m->scripts;
    lua_State *lua = s->lua;
    if (!may_begin(call, it)) {
        return;
    }
    s->call = call;
    s->database = *call->database;
    s->run = (model_script_run){.allow_oom = it->allow_oom,
                                .no_writes = it->no_writes};
    set_table(lua, "KEYS", call->args + 3, keys);
    set_table(lua, "ARGV", call->args + 3 + keys, call->count - 3 - keys);
    lua_pushcfunction(lua, name_place);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, it->function);
    if (lua_pcall(lua, 0, 1, -2) != 0) {
        reply_raised(lua, it, call->out);
    } else {
        reply_value(lua, call->out);
    }
    lua_settop(lua, 0);
    s->call = NULL;
}

static bool read_keys(model_call *call, size_t *keys)
{
    int64_t number;
    if (!model_arg_integer(call, 2, &number)) {
        return false;
    }
    if (number > (int64_t)call->count - 3) {
        model_reply_error(call->out, "ERR Number of keys can't be greater than "
                                     "number of args");
        return false;
    }
    if (number < 0) {
        model_reply_error(call->out, "ERR Number of keys can't be negative");
        return false;
    }
    *keys = (size_t)number;
    return true;
}

void model_eval(model_call *call)
{
    size_t keys;
    if (read_keys(call, &keys)) {
        const script *it = compile(call->m->scripts, call->args[1], call->out);
        if (it) {
            run_script(call, it, keys);
        }
    }
}

/* As it is written in the cache: lower case. */
static script *find_known(const model_call *call, size_t i)
{
    char sha1[40];
    if (call->args[i].length != sizeof(sha1)) {
        return NULL;
    }
    for (size_t j = 0; j < sizeof(sha1); j++) {
        char c = call->args[i].data[j];
        sha1[j] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    script *it = find(call->m->scripts, sha1);
    return it && it->known ? it : NULL;
}

void model_evalsha(model_call *call)
{
    size_t keys = 0;
    const script *it = find_known(call, 1);
    bool shaped = call->args[1].length == 40;
    if (shaped && !read_keys(call, &keys)) {
        return;
    }
    if (!it) {
        model_reply_error(call->out,
                          "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    run_script(call, it, keys);
}

void model_script_load(model_call *call)
{
    const script *it = compile(call->m->scripts, call->args[2], call->out);
    if (it) {
        model_reply_text(call->out, it->sha1);
    }
}

void model_script_exists(model_call *call)
{
    model_reply_array(call->out, call->count - 2);
    for (size_t i = 2; i < call->count; i++) {
        model_reply_integer(call->out, find_known(call, i) != NULL);
    }
}

void model_script_flush(model_call *call)
{
    if (call->count > 3 ||
        (call->count == 3 && !model_arg_is(call, 2, "sync") &&
         !model_arg_is(call, 2, "async"))) {
        model_reply_error(call->out,
                          "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    model_scripts_forget(call->m->scripts);
    model_reply_status(call->out, "OK");
}
