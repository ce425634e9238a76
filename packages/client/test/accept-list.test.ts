import { expect, test } from "vitest";
import { typeOfName } from "../src/internal.ts";
import { isAccepted } from "@sluice/core/internal";

const mayGo = (name: string, accept: readonly string[]): boolean =>
  isAccepted({ name, mimeType: typeOfName(name) }, accept);

test("source code and names without a type may go where texts are asked for", () => {
  for (const name of ["main.ts", "lib.rs", "main.go", "a.py", "Makefile", "README", "id.pub"])
    expect(mayGo(name, ["image/*", "text/*"]), name).toBe(true);
  expect(isAccepted({ name: "", mimeType: "application/octet-stream" }, ["text/*"])).toBe(false);
});

test("they may not go where a picture or one type of text is asked for", () => {
  for (const name of ["main.ts", "main.go", "README"])
    expect(mayGo(name, ["image/*", "text/csv"]), name).toBe(false);
  for (const name of ["a.png", "a.zip"]) expect(mayGo(name, ["text/*"]), name).toBe(false);
});

test("a name without an extension suggests no type, whatever word it is", () => {
  for (const name of ["png", "key", "pub", "txt", ".png", "README"])
    expect(typeOfName(name), name).toBe("application/octet-stream");
  expect(typeOfName("a.PNG")).toBe("image/png");
});
