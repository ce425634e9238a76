import { UriTemplate } from "@modelcontextprotocol/server";
import { describe as group, expect, test } from "vitest";
import { createProviderRoute } from "../src/provide/provider-route.ts";
import { toProvider } from "../src/provide/provider.ts";

/** What the route makes of a key, as a client's URI of it is mapped. */
function valuesOf(template: string, uri: string): Record<string, string> | undefined {
  const route = createProviderRoute(template);
  return route.match(route.mapper.toUri(route.mapper.toKey(uri)));
}

group("the base", () => {
  test.each([
    ["reports://sales/{year}.csv", "reports://sales/"],
    ["reports://sales/a/b{year}/{+rest}", "reports://sales/a/"],
    ["reports://{team}", "reports://"],
    ["reports://sales/today.csv", "reports://sales/"],
    ["config://app", "config://"],
    ["https://example.com/a/{id}", "https://example.com/a/"],
  ])("%s has the base %s", (uriOrTemplate, base) => {
    expect(createProviderRoute(uriOrTemplate).mapper.baseUri).toBe(base);
  });

  test("is needed", () => {
    for (const uri of ["urn:isbn:1", "report", "", "https://{host}/a", "https://example.com"])
      expect(() => createProviderRoute(uri)).toThrow(TypeError);
  });
});

group("a URI", () => {
  test("matches itself, without variables", () => {
    const route = createProviderRoute("config://app");
    expect(route).toMatchObject({ uri: "config://app", template: undefined });
    expect(route.match("config://app")).toEqual({});
    expect(route.match("config://app2")).toBeUndefined();
    expect(route.match("config://")).toBeUndefined();
  });

  test("is refused if it is not canonical, with what to do", () => {
    for (const uri of ["r://h/a b", "r://h/(a)", "r://h/%61", "r://h/{x}/(a)", "r://h/{x}!"])
      expect(() => createProviderRoute(uri)).toThrow(/percent-encode/);
    for (const uri of ["r://h/a?b", "r://h/a#b", "r://h/../b", "r://h/", "r://h/{x}/"])
      expect(() => createProviderRoute(uri)).toThrow(TypeError);
  });
});

group("a template", () => {
  test("gives decoded values", () => {
    expect(valuesOf("r://h/{year}/{name}.csv", "r://h/2026/a%20b%2B.csv")).toEqual({
      year: "2026",
      name: "a b+",
    });
    expect(valuesOf("r://h/{+path}", "r://h/a/b%25/%E2%98%83")).toEqual({ path: "a/b%/☃" });
    expect(valuesOf("r://h/{+path}.csv", "r://h/a/b.csv")).toEqual({ path: "a/b" });
    expect(valuesOf("r://h/{a}-{b}", "r://h/x-y-z")).toEqual({ a: "x-y", b: "z" });
  });

  test("takes any spelling of a URI, by way of the mapper", () => {
    expect(valuesOf("r://h/{name}", "r://h/%61(b)")).toEqual({ name: "a(b)" });
  });

  test("matches nothing else", () => {
    expect(valuesOf("r://h/{name}", "r://h/a/b")).toBeUndefined();
    expect(valuesOf("r://h/{name}.csv", "r://h/a.txt")).toBeUndefined();
    expect(createProviderRoute("r://h/{name}").match("r://other/a")).toBeUndefined();
  });

  test("gives no value that leads out of a folder", () => {
    expect(valuesOf("r://h/v{name}", "r://h/v..")).toBeUndefined();
    expect(valuesOf("r://h/v{+path}", "r://h/v../secret")).toBeUndefined();
    expect(valuesOf("r://h/v{+path}", "r://h/v/etc/passwd")).toBeUndefined();
    expect(valuesOf("r://h/{+path}x", "r://h/a/x")).toBeUndefined();
  });

  test("does not match if its text cuts an encoding in two", () => {
    expect(valuesOf("r://h/{a}2{b}", "r://h/x%2Cy")).toBeUndefined();
  });

  test("agrees with the UriTemplate of the SDK", () => {
    for (const template of ["r://h/{a}/{b}", "r://h/{+a}/{b}", "r://h/{a}-{b}.x", "r://h/{a}/{+b}"])
      for (const uri of ["r://h/1/2", "r://h/1/2/3", "r://h/1-2.x", "r://h/1-2-3.x", "r://h/1"])
        expect(createProviderRoute(template).match(uri) ?? null).toEqual(
          new UriTemplate(template).match(uri),
        );
  });

  test("with anything but {name} and {+path} is refused", () => {
    for (const one of [
      "{?x}",
      "{/x}",
      "{#x}",
      "{.x}",
      "{;x}",
      "{&x}",
      "{x*}",
      "{x:3}",
      "{x,y}",
      "{}",
    ])
      expect(() => createProviderRoute(`r://h/a${one}`), one).toThrow(/\{name\} and \{\+path\}/);
    for (const one of ["{", "}", "{x", "x}", "{a{b}}"])
      expect(() => createProviderRoute(`r://h/a${one}`), one).toThrow(TypeError);
    expect(() => createProviderRoute("r://h/{x}/{x}")).toThrow(/twice/);
  });

  test("is refused if it would split a client's URI in too many ways", () => {
    for (const one of ["{a}-{b}-{c}", "{+a}-{b}-{c}", "{a}-{b}/{c}-{d}", "{+a}/{+b}/{c}"])
      expect(() => createProviderRoute(`r://h/${one}`), one).toThrow(/too many/);
    for (const one of ["{a}/{b}/{c}/{d}", "{a}-{b}/{c}", "{a}/{+b}/{c}", "{a}/{b}/{+c}"])
      expect(() => createProviderRoute(`r://h/${one}`), one).not.toThrow();
  });
});

group("a provider", () => {
  test("may be a function, its open", () => {
    const open = (): string => "";
    expect(toProvider("r://h/a", open)).toEqual({ open });
  });

  test("with settings that make no sense is refused when it is given", () => {
    const open = (): string => "";
    const describe = (): object => ({});
    for (const given of [
      {},
      { open: "text" },
      { open, describe: {} },
      { open, describe, rewind: false },
      { open, rewind: true },
      { open, maxBytes: 0 },
      { open, maxBytes: Number.NaN },
      { open, idleMs: 0 },
    ])
      expect(() => toProvider("r://h/a", given as never)).toThrow(/sluice\.provide: "r:\/\/h\/a"/);
    expect(() =>
      toProvider("r://h/a", { open, describe, rewind: true, maxBytes: 1, idleMs: 1 }),
    ).not.toThrow();
  });
});
