/** The parts of `fengari`, a Lua machine, that the simulated Redis uses. */
declare module "fengari" {
  export interface LuaState {
    readonly __luaState: unique symbol;
  }
  export type LuaText = Uint8Array;
  export interface Fengari {
    readonly to_luastring: (text: string) => LuaText;
    readonly to_jsstring: (text: LuaText) => string;
    readonly lualib: { luaL_openlibs(lua: LuaState): void };
    readonly lauxlib: {
      luaL_newstate(): LuaState;
      luaL_dostring(lua: LuaState, code: LuaText): number;
      luaL_loadstring(lua: LuaState, code: LuaText): number;
    };
    readonly lua: {
      readonly LUA_REGISTRYINDEX: number;
      readonly LUA_TNUMBER: number;
      readonly LUA_TSTRING: number;
      readonly LUA_TBOOLEAN: number;
      readonly LUA_TTABLE: number;
      lua_type(lua: LuaState, at: number): number;
      lua_gettop(lua: LuaState): number;
      lua_settop(lua: LuaState, top: number): void;
      lua_pop(lua: LuaState, count: number): void;
      lua_isnil(lua: LuaState, at: number): boolean;
      lua_isinteger(lua: LuaState, at: number): boolean;
      lua_tonumber(lua: LuaState, at: number): number;
      lua_toboolean(lua: LuaState, at: number): boolean;
      lua_tostring(lua: LuaState, at: number): LuaText;
      lua_pushboolean(lua: LuaState, value: boolean): void;
      lua_pushnumber(lua: LuaState, value: number): void;
      lua_pushinteger(lua: LuaState, value: number): void;
      lua_pushstring(lua: LuaState, text: LuaText): void;
      lua_pushvalue(lua: LuaState, at: number): void;
      lua_pushcfunction(lua: LuaState, call: (lua: LuaState) => number): void;
      lua_createtable(lua: LuaState, items: number, fields: number): void;
      lua_rawgeti(lua: LuaState, at: number, index: number): void;
      lua_rawseti(lua: LuaState, at: number, index: number): void;
      lua_getfield(lua: LuaState, at: number, name: LuaText): number;
      lua_setfield(lua: LuaState, at: number, name: LuaText): void;
      lua_getglobal(lua: LuaState, name: LuaText): number;
      lua_setglobal(lua: LuaState, name: LuaText): void;
      lua_pcall(lua: LuaState, args: number, results: number, handler: number): number;
      lua_error(lua: LuaState): number;
    };
  }
}
