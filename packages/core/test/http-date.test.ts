import { expect, test } from "vitest";
import { parseHttpDate } from "@sluice/core/internal";

const now = Date.UTC(2026, 10, 22);

test.each([
  "Sun, 06 Nov 1994 08:49:37 GMT",
  "Sunday, 06-Nov-94 08:49:37 GMT",
  "Sun Nov  6 08:49:37 1994",
  "  Sun, 06 Nov 1994 08:49:37 GMT ",
])("each form of a date is read: %s", (text) => {
  expect(parseHttpDate(text, now)).toBe(784_111_777_000);
});

test.each([
  null,
  undefined,
  "",
  "0",
  "now",
  "Sun, 06 Nov 1994 08:49:37",
  "Sun, 06 Nov 1994 08:49:37 CET",
  "06 Nov 1994 08:49:37 GMT",
  "Sun, 06 Nux 1994 08:49:37 GMT",
  "Fri, 99 Dec 2020 10:00:00 GMT",
  "Wed, 30 Feb 2022 10:00:00 GMT",
  "Fri, 11 Dec 2020 24:00:00 GMT",
  "Fri, 11 Dec 2020 10:60:00 GMT",
  "Fri, 11 Dec 2020 10:00:61 GMT",
])("rejects an invalid date: %s", (text) => {
  expect(parseHttpDate(text, now)).toBeUndefined();
});
