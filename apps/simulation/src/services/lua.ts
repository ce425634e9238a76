import { createRequire } from "node:module";
import type { Fengari, LuaState } from "fengari";
import type { Reply } from "./redis-data.ts";

const { lauxlib, lua, lualib, to_jsstring, to_luastring } = loadFengari();

/** Its library of files, which scripts do not use, listens to the end of this process from then on: that is taken back. */
function loadFengari(): Fengari {
  const before = new Set(process.listeners("exit"));
  const fengari = createRequire(import.meta.url)("fengari") as Fengari;
  for (const listener of process.listeners("exit"))
    if (!before.has(listener)) process.off("exit", listener);
  return fengari;
}

/** Runs scripts as Redis does: `KEYS` and `ARGV` are globals, and `redis.call` runs a command. */
export class Scripts {
  readonly #lua: LuaState = lauxlib.luaL_newstate();
  readonly #call: (command: string, args: readonly string[]) => Reply;

  constructor(call: (command: string, args: readonly string[]) => Reply) {
    this.#call = call;
    lualib.luaL_openlibs(this.#lua);
    // Redis has Lua 5.1
    lauxlib.luaL_dostring(this.#lua, to_luastring("unpack = table.unpack redis = {}"));
    lua.lua_getglobal(this.#lua, to_luastring("redis"));
    lua.lua_pushcfunction(this.#lua, (state) => this.#callCommand(state));
    lua.lua_setfield(this.#lua, -2, to_luastring("call"));
    lua.lua_pop(this.#lua, 1);
  }

  /** Runs a script, compiled once for its name. Throws the error that Redis answers. */
  run(name: string, text: string, keys: readonly string[], args: readonly string[]): Reply {
    const state = this.#lua;
    this.#setGlobal("KEYS", keys);
    this.#setGlobal("ARGV", args);
    lua.lua_getfield(state, lua.LUA_REGISTRYINDEX, to_luastring(name));
    if (lua.lua_isnil(state, -1)) {
      lua.lua_pop(state, 1);
      if (lauxlib.luaL_loadstring(state, to_luastring(text)) !== 0) throw this.#fault();
      lua.lua_pushvalue(state, -1);
      lua.lua_setfield(state, lua.LUA_REGISTRYINDEX, to_luastring(name));
    }
    if (lua.lua_pcall(state, 0, 1, 0) !== 0) throw this.#fault();
    const reply = replyAt(state, lua.lua_gettop(state));
    lua.lua_settop(state, 0);
    return reply;
  }

  #fault(): Error {
    const message = to_jsstring(lua.lua_tostring(this.#lua, -1));
    lua.lua_settop(this.#lua, 0);
    return new Error(`ERR ${message}`);
  }

  #setGlobal(name: string, list: readonly string[]): void {
    push(this.#lua, list);
    lua.lua_setglobal(this.#lua, to_luastring(name));
  }

  #callCommand(state: LuaState): number {
    const [command = "", ...args] = Array.from({ length: lua.lua_gettop(state) }, (_, index) =>
      argumentAt(state, index + 1),
    );
    try {
      push(state, this.#call(command.toUpperCase(), args));
      return 1;
    } catch (error) {
      lua.lua_pushstring(state, to_luastring((error as Error).message));
      return lua.lua_error(state);
    }
  }
}

/** An argument of `redis.call`. Redis writes a number with up to 17 digits, JavaScript with as many as it has. */
function argumentAt(state: LuaState, at: number): string {
  if (lua.lua_type(state, at) === lua.LUA_TNUMBER) return String(lua.lua_tonumber(state, at));
  return to_jsstring(lua.lua_tostring(state, at));
}

function push(state: LuaState, reply: Reply): void {
  if (reply === null) lua.lua_pushboolean(state, false);
  else if (typeof reply === "string") lua.lua_pushstring(state, to_luastring(reply));
  // integers of this machine have 32 bits, and numbers of Redis 53
  else if (typeof reply === "number")
    if ((reply | 0) === reply) lua.lua_pushinteger(state, reply);
    else lua.lua_pushnumber(state, reply);
  else {
    lua.lua_createtable(state, reply.length, 0);
    for (const [index, each] of reply.entries()) {
      push(state, each);
      lua.lua_rawseti(state, -2, index + 1);
    }
  }
}

/** What a script gives, as Redis answers it. */
function replyAt(state: LuaState, at: number): Reply {
  switch (lua.lua_type(state, at)) {
    case lua.LUA_TNUMBER:
      return Math.trunc(lua.lua_tonumber(state, at));
    case lua.LUA_TSTRING:
      return to_jsstring(lua.lua_tostring(state, at));
    case lua.LUA_TBOOLEAN:
      return lua.lua_toboolean(state, at) ? 1 : null;
    case lua.LUA_TTABLE: {
      const list: Reply[] = [];
      for (let index = 1; ; index++) {
        lua.lua_rawgeti(state, at, index);
        const isEnd = lua.lua_isnil(state, -1);
        if (!isEnd) list.push(replyAt(state, lua.lua_gettop(state)));
        lua.lua_pop(state, 1);
        if (isEnd) return list;
      }
    }
    default:
      return null;
  }
}
