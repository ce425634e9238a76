import { expect, test } from "vitest";
import { llmsText } from "../llms-text.mjs";

const pages = {
  "docs/README.md":
    "# Docs\n\n## Start\n\n- [A server](start/server.md#run): first, [tasks](tasks/README.md)\n- [again](start/server.md)\n\n## Contributing\n\n- [map](../MAP.md)\n",
  "docs/tasks/README.md": "# Tasks\n\n| [One](one.md) | [a server](../start/server.md) |\n",
};

test("each page is listed once, under its section, and those of a list after it", () => {
  const text = llmsText((path) => pages[path], "https://example.com/");
  expect(text.split("\n").slice(6)).toEqual([
    "## Start",
    "",
    "- [A server](https://example.com/docs/start/server.md)",
    "- [Tasks](https://example.com/docs/tasks/README.md)",
    "- [One](https://example.com/docs/tasks/one.md)",
    "",
    "## Optional",
    "",
    "- [Map](https://example.com/MAP.md)",
    "",
  ]);
});
